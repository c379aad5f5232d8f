# SPDX-License-Identifier: Apache-2.0
"""Results as a page: tables, charts and what they can be held to."""
