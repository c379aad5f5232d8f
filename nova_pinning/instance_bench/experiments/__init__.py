# SPDX-License-Identifier: Apache-2.0
"""The experiments of the project, as files; experiment-1.json is the schema.
"""
