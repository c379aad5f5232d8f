# SPDX-License-Identifier: Apache-2.0
"""What is run to measure instances: its commands, its figures, its programs.
"""
