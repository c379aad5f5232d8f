# SPDX-License-Identifier: Apache-2.0
"""Run dedicated and shared CPUs side by side in one OpenStack Nova cloud.

Importing this package imports nothing else: nova, which takes seconds to
load, is left to the modules that need it.
"""
