# SPDX-License-Identifier: Apache-2.0
"""What all checks are made of: rules, findings, and the formats of both."""
