# SPDX-License-Identifier: Apache-2.0
"""What people and machines are shown: drawings, charts, tables, reports."""
