# SPDX-License-Identifier: Apache-2.0
"""What to run a workload on: published best practice, and one's own results.

rules.yaml has what is published, rules-1.json is its schema.
"""
