# SPDX-License-Identifier: Apache-2.0
"""The tempest plugin: boots servers, and looks at what they really run on."""
