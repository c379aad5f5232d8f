# SPDX-License-Identifier: Apache-2.0
"""Print the documentation's table of workloads."""

from nova_pinning.instance_bench.workloads import reference

if __name__ == '__main__':
    print(reference.table(), end='')
