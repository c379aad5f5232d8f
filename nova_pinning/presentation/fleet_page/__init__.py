# SPDX-License-Identifier: Apache-2.0
"""A fleet as a page to look at, one file that needs nothing else.

Python works out everything that is said; the script only shows it.
"""
