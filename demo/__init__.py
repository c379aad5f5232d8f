# SPDX-License-Identifier: Apache-2.0
"""The demo, and the cloud in one process that it and the tests run on."""
