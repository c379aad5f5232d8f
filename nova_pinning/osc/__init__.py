# SPDX-License-Identifier: Apache-2.0
"""The plugin for OpenStackClient: the commands of openstack pinning."""
