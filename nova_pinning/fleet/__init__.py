# SPDX-License-Identifier: Apache-2.0
"""Many hosts with the guests on them: what is sold, what can still be sold.

A snapshot of a fleet is one JSON document. Importers make it from nova's
database, from the compute API or from a data set; everything else here reads
it and needs no cloud.
"""
