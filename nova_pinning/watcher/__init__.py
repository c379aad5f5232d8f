# SPDX-License-Identifier: Apache-2.0
"""Strategies and a planner for OpenStack Watcher."""
