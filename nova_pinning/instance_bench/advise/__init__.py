# SPDX-License-Identifier: Apache-2.0
"""What to run a workload on: rules, one's own results, and the flavor.

rules.yaml has the rules, each with its condition, sources and strength.
"""
