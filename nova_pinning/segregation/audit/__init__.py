# SPDX-License-Identifier: Apache-2.0
"""The audit: what keeps a cloud's shared and dedicated from being apart.

``run.audit`` reads a cloud through
nova_pinning.segregation.segregation_cloud.SegregationCloud and tells what the
rules find, which are functions of plain data.
"""
