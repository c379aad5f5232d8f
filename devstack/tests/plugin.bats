#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031
# SPDX-License-Identifier: Apache-2.0

# The plugin in a devstack that is made of stubs (devstack.bash), run as a
# process of its own; what it leaves in real files is looked at.

HERE=$BATS_TEST_DIRNAME
CHECKOUT=$(cd "$HERE/../.." && pwd)
CONTROLLER=n-api,n-sch,n-cond,key,tempest
ALL_IN_ONE=$CONTROLLER,n-cpu

setup() {
    export ROOT=$BATS_TEST_TMPDIR
    export ENABLED_SERVICES=$ALL_IN_ONE
    export NOVA_PINNING_SYS_CPU_DIR=$ROOT/cpu
    NOVA=$ROOT/etc/nova/nova.conf
    NOVA_CPU=$ROOT/etc/nova/nova-cpu.conf
    PROVIDER=$ROOT/etc/nova/provider_config/nova-pinning.yaml
    TEMPEST=$ROOT/tempest.conf
    touch "$ROOT/calls"
    cpus 0-7 0,4
    nova_version 34.0.0
}

# cpus ONLINE SIBLINGS: the host, and the first core of it
cpus() {
    local first=${1%%[-,]*}
    mkdir -p "$ROOT/cpu/cpu$first/topology"
    echo "$1" > "$ROOT/cpu/online"
    echo "$2" > "$ROOT/cpu/cpu$first/topology/thread_siblings_list"
}

# nova_version VERSION: what importlib.metadata finds
nova_version() {
    export PYTHONPATH=$ROOT/site
    rm -rf "$ROOT/site"
    mkdir -p "$ROOT/site/nova-$1.dist-info"
    printf 'Metadata-Version: 2.1\nName: nova\nVersion: %s\n' "$1" \
        > "$ROOT/site/nova-$1.dist-info/METADATA"
}

devstack() {
    "$HERE/devstack.bash" "$@"
}

# values FILE SECTION OPTION: a line each
values() {
    awk -v section="[$2]" -v option="$3" '
        /^\[/ { inside = $0 == section }
        inside && $1 == option && $2 == "=" {
            sub(/^[^=]*= */, ""); print
        }' "$1"
}

# assert ACTUAL EXPECTED
assert() {
    if [[ "$1" != "$2" ]]; then
        printf 'expected: %s\nactual:   %s\n' "$2" "$1"
        return 1
    fi
}

assert_has() {
    if [[ "$1" != *"$2"* ]]; then
        printf 'expected: ...%s...\nactual:   %s\n' "$2" "$1"
        return 1
    fi
}

filters() {
    values "$NOVA" filter_scheduler enabled_filters
}

# Filters and weighers

@test "nova's filters stay available and come first" {
    devstack stack
    assert "$(values "$NOVA" filter_scheduler available_filters)" \
        "nova.scheduler.filters.all_filters
nova_pinning.scheduler.filters.all_filters"
}

@test "filters that another plugin made available stay" {
    devstack stack
    sed -i 's/^available_filters = nova_pinning.*/available_filters = their.F/' \
        "$NOVA"
    devstack run_phase stack post-config
    assert "$(values "$NOVA" filter_scheduler available_filters)" \
        "nova.scheduler.filters.all_filters
their.F
nova_pinning.scheduler.filters.all_filters"
}

@test "our filters follow devstack's and replace NUMATopologyFilter" {
    devstack stack
    assert "$(filters)" \
        ComputeFilter,SameHostFilter,HostClassFilter,PinnedTopologyFilter
}

@test "blanks in NOVA_FILTERS do no harm" {
    NOVA_FILTERS='ComputeFilter, NUMATopologyFilter, SameHostFilter' \
        devstack stack
    assert "$(filters)" \
        ComputeFilter,SameHostFilter,HostClassFilter,PinnedTopologyFilter
}

@test "NUMATopologyFilter stays without PinnedTopologyFilter" {
    NOVA_PINNING_ENABLED_FILTERS=HostClassFilter devstack stack
    assert "$(filters)" \
        ComputeFilter,SameHostFilter,NUMATopologyFilter,HostClassFilter
}

@test "a filter that NOVA_FILTERS has already comes once" {
    NOVA_FILTERS=HostClassFilter,ComputeFilter devstack stack
    assert "$(filters)" ComputeFilter,HostClassFilter,PinnedTopologyFilter
}

@test "without filters of ours, devstack's are left alone" {
    NOVA_PINNING_ENABLED_FILTERS='' devstack stack
    assert "$(filters)" ComputeFilter,SameHostFilter,NUMATopologyFilter
    assert "$(values "$NOVA" filter_scheduler available_filters)" ''
}

@test "stack ends if nova.conf and devstack name no filters" {
    NOVA_FILTERS='' run devstack stack
    assert "$status" 1
    assert_has "$output" 'has no enabled_filters; set NOVA_FILTERS'
}

@test "weighers are one comma list, nova's first" {
    devstack stack
    assert "$(values "$NOVA" filter_scheduler weight_classes)" \
        nova.scheduler.weights.all_weighers,nova_pinning.scheduler.weights.all_weighers
}

@test "without weighers of ours, weight_classes is left out" {
    NOVA_PINNING_WEIGHT_CLASSES='' devstack stack
    assert "$(values "$NOVA" filter_scheduler weight_classes)" ''
}

@test "other options of nova.conf are left alone" {
    devstack stack
    assert "$(values "$NOVA" DEFAULT debug)" True
    assert "$(values "$NOVA" filter_scheduler track_instance_changes)" False
}

# CPU sets

@test "a dedicated host pins all CPUs but those of the first core" {
    devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 1-3,5-7
    assert "$(values "$NOVA_CPU" compute cpu_shared_set)" ''
}

@test "a shared host shares all CPUs but those of the first core" {
    NOVA_PINNING_HOST_CLASS=shared devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" ''
    assert "$(values "$NOVA_CPU" compute cpu_shared_set)" 1-3,5-7
}

@test "CPUs that are offline are not counted" {
    cpus 2-3,6,9-11 2,6
    devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 3,9-11
}

@test "CPU sets in the kernel's syntax are written as nova reads them" {
    NOVA_PINNING_CPU_DEDICATED_SET=1-7:2 NOVA_PINNING_CPU_SHARED_SET='0-2,^1' \
        devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 1,3,5,7
    assert "$(values "$NOVA_CPU" compute cpu_shared_set)" 0,2
}

@test "the shared CPUs that were asked for are not pinned" {
    NOVA_PINNING_CPU_SHARED_SET=0,4,1 devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 2-3,5-7
    assert "$(values "$NOVA_CPU" compute cpu_shared_set)" 0-1,4
}

@test "CPU sets can be left out" {
    NOVA_PINNING_CPU_DEDICATED_SET='' devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" ''
}

@test "local.conf's own nova-cpu.conf wins" {
    LOCAL_NOVA_CPU_CONF='compute cpu_dedicated_set 6-7' devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 6-7
}

# refuse_cpus SENTENCE: stack ends with it before anything is done
refuse_cpus() {
    run devstack stack
    assert "$status" 1
    assert_has "$output" "$1"
    assert "$(cat "$ROOT/calls")" ''
    [[ ! -e "$NOVA" ]]
}

@test "stack ends on a host of one core" {
    cpus 0-1 0-1
    refuse_cpus 'the only core, CPUs 0-1, is left to the host'
}

@test "stack ends on CPUs that are both" {
    export NOVA_PINNING_CPU_DEDICATED_SET=1-3 NOVA_PINNING_CPU_SHARED_SET=3-5
    refuse_cpus 'CPUs 3 are both dedicated and shared'
}

@test "stack ends on CPUs that are not there" {
    export NOVA_PINNING_CPU_DEDICATED_SET=6-9
    refuse_cpus 'the host has no CPUs 8-9 online'
}

@test "stack ends on a CPU list that cannot be read" {
    export NOVA_PINNING_CPU_DEDICATED_SET=1-x
    refuse_cpus "'1-x' in CPU list '1-x' is not a CPU id"
}

@test "stack ends on a class that there is not" {
    export NOVA_PINNING_HOST_CLASS=enterprise
    refuse_cpus 'NOVA_PINNING_HOST_CLASS is enterprise; set it to dedicated'
}

# Traits

@test "the host's trait is put into a provider.yaml that nova reads" {
    devstack stack
    assert "$(values "$NOVA_CPU" compute provider_config_location)" \
        "$ROOT/etc/nova/provider_config"
    assert "$(ls "$ROOT/etc/nova/provider_config")" nova-pinning.yaml
    assert_has "$(cat "$PROVIDER")" '- CUSTOM_PINNING_DEDICATED'
}

@test "a host without a class gets no trait, and loses the one it had" {
    devstack stack
    NOVA_PINNING_HOST_CLASS='' NOVA_PINNING_CPU_DEDICATED_SET=2-3 \
        devstack stack
    [[ ! -e "$PROVIDER" ]]
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 2-3
}

# Nodes

@test "a compute node gets the compute part only" {
    ENABLED_SERVICES=n-cpu,placement-client devstack stack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 1-3,5-7
    [[ -e "$PROVIDER" ]]
    assert "$(filters)" ComputeFilter,SameHostFilter,NUMATopologyFilter
    assert "$(cat "$ROOT/calls")" ''
    [[ ! -e "$TEMPEST" ]]
}

@test "a controller without nova-compute gets no CPU sets" {
    cpus 0 0
    ENABLED_SERVICES=$CONTROLLER devstack stack
    assert "$(values "$NOVA" compute cpu_dedicated_set)" ''
    [[ ! -e "$PROVIDER" ]]
    assert_has "$(filters)" PinnedTopologyFilter
}

@test "a node without nova is left alone" {
    ENABLED_SERVICES=c-vol devstack stack
    assert "$(cat "$ROOT/calls")" ''
    assert "$(find "$ROOT/etc" "$ROOT/data" -type f)" ''
}

# Installation

@test "the package is installed next to nova" {
    devstack stack
    assert "$(head -1 "$ROOT/calls")" \
        "setup_develop nova-pinning[tools] from $CHECKOUT"
}

@test "a node without nova-api gets no command lines" {
    ENABLED_SERVICES=n-sch devstack stack
    assert "$(head -1 "$ROOT/calls")" \
        "setup_develop nova-pinning from $CHECKOUT"
}

# nova's master has a version such as 34.1.0.dev7 between two releases.
@test "a later nova will do, from a branch too" {
    nova_version 34.1.0.dev7
    devstack stack
}

# refuse_nova: it is not replaced behind the back of devstack
refuse_nova() {
    run devstack stack
    assert "$status" 1
    assert_has "$output" "$1"
    assert "$(cat "$ROOT/calls")" ''
}

@test "stack ends with a nova that is too old" {
    nova_version 28.3.0
    refuse_nova 'nova-pinning needs nova>=29.0.0, and this is 28.3.0'
}

@test "a release candidate is too old for pip, and for us" {
    nova_version 29.0.0.0rc1
    refuse_nova 'and this is 29.0.0.0rc1; set NOVA_BRANCH'
}

@test "the Python of devstack's environment is asked" {
    mkdir -p "$ROOT/venv/bin"
    printf '#!/bin/bash\necho asked >> "%s"\nexec python3 "$@"\n' \
        "$ROOT/asked" > "$ROOT/venv/bin/python3"
    chmod +x "$ROOT/venv/bin/python3"
    GLOBAL_VENV=True DEVSTACK_VENV=$ROOT/venv PYTHON3_VERSION=none \
        devstack stack
    [[ -s "$ROOT/asked" ]]
    rm "$ROOT/asked"
    GLOBAL_VENV=False DEVSTACK_VENV=$ROOT/venv devstack stack
    [[ ! -e "$ROOT/asked" ]]
}

@test "stack ends with a Python that is too old" {
    mkdir -p "$ROOT/bin"
    printf '#!/bin/bash\nexit 1\n' > "$ROOT/bin/python3.9"
    chmod +x "$ROOT/bin/python3.9"
    PATH=$ROOT/bin:$PATH PYTHON3_VERSION=3.9 run devstack stack
    assert "$status" 1
    assert_has "$output" 'needs Python 3.11 or newer; set PYTHON3_VERSION'
}

@test "stack ends on the path of a filter" {
    NOVA_PINNING_ENABLED_FILTERS=HostClassFilter,a.b.OtherFilter \
        run devstack stack
    assert "$status" 1
    assert_has "$output" \
        'has a.b.OtherFilter, but takes bare class names, such as OtherFilter'
}

# Flavors

@test "the catalogue's flavors are registered" {
    devstack stack
    assert "$(grep ^openstack "$ROOT/calls")" \
        "openstack --os-cloud devstack-admin pinning flavor apply --yes --brief $CHECKOUT/etc/nova-pinning/flavors.yaml"
}

@test "another catalogue, or none" {
    touch "$ROOT/mine.yaml"
    NOVA_PINNING_CATALOGUE=$ROOT/mine.yaml devstack stack
    assert_has "$(cat "$ROOT/calls")" "--brief $ROOT/mine.yaml"
    rm "$ROOT/calls"
    NOVA_PINNING_CATALOGUE='' devstack stack
    run grep ^openstack "$ROOT/calls"
    assert "$status" 1
}

@test "stack ends if there is no such catalogue" {
    NOVA_PINNING_CATALOGUE=$ROOT/none.yaml run devstack stack
    assert "$status" 1
    assert_has "$output" "no file $ROOT/none.yaml that can be read"
    assert "$(cat "$ROOT/calls")" ''
}

@test "stack ends if the flavors are not in place" {
    OPENSTACK_STATUS=1 run devstack stack
    assert "$status" 1
    assert_has "$output" 'flavors.yaml are not in place'
}

# Tempest

@test "the tempest plugin is installed and configured" {
    devstack stack
    assert "$(grep ^tempest "$ROOT/calls")" "tempest plugins: $CHECKOUT"
    assert "$(values "$TEMPEST" pinning host_command)" 'sudo sh -c'
    assert "$(values "$TEMPEST" pinning scheduler_log_command)" \
        'sudo journalctl --output cat --unit devstack@n-sch --since -1h'
    assert "$(values "$TEMPEST" pinning may_mark_hosts)" True
    assert "$(values "$TEMPEST" pinning cpu_sets)" 'node-1 dedicated=1-3,5-7'
    assert "$(values "$TEMPEST" pinning virsh_command)" ''
    assert "$(values "$TEMPEST" pinning isolated_aggregates)" ''
    assert "$(values "$TEMPEST" compute min_compute_nodes)" 1
}

@test "other tempest plugins stay, and ours comes once" {
    TEMPEST_PLUGINS=/opt/stack/theirs devstack stack
    assert "$(grep ^tempest "$ROOT/calls")" \
        "tempest plugins: /opt/stack/theirs $CHECKOUT"
    rm "$ROOT/calls"
    TEMPEST_PLUGINS="$CHECKOUT /opt/stack/theirs" devstack stack
    assert "$(grep ^tempest "$ROOT/calls")" \
        "tempest plugins: $CHECKOUT /opt/stack/theirs"
}

@test "options of the tempest plugin can be set" {
    NOVA_PINNING_TEMPEST_HOST_COMMAND='ssh stack@{host} sudo' \
        NOVA_PINNING_TEMPEST_HOST_ADDRESSES=a:10.0.0.1,b:10.0.0.2 \
        NOVA_PINNING_TEMPEST_VIRSH_COMMAND='virsh -c qemu+unix:///system' \
        NOVA_PINNING_TEMPEST_SCHEDULER_LOG_COMMAND='cat /var/log/sch.log' \
        NOVA_PINNING_TEMPEST_MAY_MARK_HOSTS=False \
        NOVA_PINNING_TEMPEST_PCI_ALIAS=nvme \
        devstack stack
    assert "$(values "$TEMPEST" pinning host_command)" 'ssh stack@{host} sudo'
    assert "$(values "$TEMPEST" pinning host_addresses)" a:10.0.0.1,b:10.0.0.2
    assert "$(values "$TEMPEST" pinning virsh_command)" \
        'virsh -c qemu+unix:///system'
    assert "$(values "$TEMPEST" pinning scheduler_log_command)" \
        'cat /var/log/sch.log'
    assert "$(values "$TEMPEST" pinning may_mark_hosts)" False
    assert "$(values "$TEMPEST" pinning pci_alias)" nvme
}

@test "tempest gets the CPU sets of other hosts, and of this in use" {
    NOVA_PINNING_TEMPEST_CPU_SETS='node-2 shared=0-7;node-3 dedicated=2,4 ' \
        LOCAL_NOVA_CPU_CONF='compute cpu_shared_set 0, 4' devstack stack
    assert "$(values "$TEMPEST" pinning cpu_sets | sort)" \
        'node-1 dedicated=1-3,5-7 shared=0,4
node-2 shared=0-7
node-3 dedicated=2,4'
}

@test "tempest knows this host by the name that nova-compute has" {
    LOCAL_NOVA_CPU_CONF='DEFAULT host rack-1' devstack stack
    assert "$(values "$TEMPEST" pinning cpu_sets)" 'rack-1 dedicated=1-3,5-7'
}

@test "tempest on a controller knows the other hosts only" {
    NOVA_PINNING_TEMPEST_CPU_SETS='node-2 shared=0-7' \
        ENABLED_SERVICES=$CONTROLLER devstack stack
    assert "$(values "$TEMPEST" pinning cpu_sets)" 'node-2 shared=0-7'
}

@test "tempest knows whether aggregates are isolated" {
    LOCAL_NOVA_CONF='scheduler enable_isolated_aggregate_filtering True' \
        devstack stack
    assert "$(values "$TEMPEST" pinning isolated_aggregates)" True
}

@test "without tempest, tempest.conf is left alone" {
    ENABLED_SERVICES=n-api,n-sch,n-cpu devstack stack
    [[ ! -e "$TEMPEST" ]]
}

# Again, and back

# checksums: of all that devstack and the plugin have written
checksums() {
    (cd "$ROOT" && find etc data tempest.conf -type f -print0 | sort -z \
        | xargs -0 sha256sum)
}

@test "a phase that runs twice changes nothing the second time" {
    devstack stack
    checksums > "$ROOT/first"
    devstack run_phase stack post-config
    devstack run_phase stack test-config
    devstack run_phase stack post-config
    devstack run_phase stack test-config
    checksums > "$ROOT/second"
    diff "$ROOT/first" "$ROOT/second"
}

@test "stacking again gives the same files" {
    devstack stack
    checksums > "$ROOT/first"
    devstack stack
    checksums > "$ROOT/second"
    # Where each option's note stands may differ.
    diff <(grep -v data/ "$ROOT/first") <(grep -v data/ "$ROOT/second")
}

# sections FILE: its options, in an order of their own; a section that has
# become empty stays
sections() {
    awk '/^\[/ { section = $0; next } NF { print section, $0 }' "$1" | sort
}

restores() {
    NO_PLUGIN=yes devstack stack
    local file
    for file in "$NOVA" "$NOVA_CPU" "$TEMPEST"; do
        sections "$file" > "$file.before"
    done
    devstack stack
    "$@"
    for file in "$NOVA" "$NOVA_CPU" "$TEMPEST"; do
        sections "$file" | diff "$file.before" -
    done
    [[ ! -e "$PROVIDER" ]]
}

@test "unstack restores what was there" {
    restores devstack unstack
}

@test "unstack restores what was there after stacking twice" {
    stacked_twice() {
        devstack stack
        devstack unstack
    }
    restores stacked_twice
}

@test "unstack restores the filters of the last stack" {
    # With ours in place, both lists are the same.
    NOVA_FILTERS=ComputeFilter,NUMATopologyFilter devstack stack
    export NOVA_FILTERS=ComputeFilter
    restores devstack unstack
}

@test "unstack leaves what was changed since" {
    devstack stack
    sed -i 's/^enabled_filters = .*/enabled_filters = ComputeFilter/' "$NOVA"
    devstack unstack
    assert "$(filters)" ComputeFilter
    assert "$(values "$NOVA" filter_scheduler weight_classes)" ''
}

@test "unstack leaves what local.conf had" {
    LOCAL_NOVA_CPU_CONF='compute cpu_dedicated_set 6-7' devstack stack
    devstack unstack
    assert "$(values "$NOVA_CPU" compute cpu_dedicated_set)" 6-7
    assert "$(values "$NOVA" compute cpu_dedicated_set)" ''
}

@test "unstack leaves other providers' files" {
    devstack stack
    touch "$ROOT/etc/nova/provider_config/theirs.yaml"
    devstack unstack
    assert "$(ls "$ROOT/etc/nova/provider_config")" theirs.yaml
}

@test "unstack does nothing where nothing was stacked, or twice" {
    devstack unstack
    devstack stack
    devstack unstack
    checksums > "$ROOT/first"
    devstack unstack
    checksums > "$ROOT/second"
    diff "$ROOT/first" "$ROOT/second"
}

@test "unstack remembers nothing that it has put back" {
    devstack stack
    local ours
    ours=$(filters)
    devstack unstack
    sed -i "s/^enabled_filters = .*/enabled_filters = $ours/" "$NOVA"
    devstack unstack
    assert "$(filters)" "$ours"
}

@test "unstack goes on where tempest.conf is gone" {
    devstack stack
    rm "$TEMPEST"
    devstack unstack
    [[ ! -e "$TEMPEST" ]]
    assert_has "$(filters)" NUMATopologyFilter
}

@test "clean restores, uninstalls and forgets" {
    restores devstack clean
    assert "$(tail -1 "$ROOT/calls")" 'pip_uninstall nova-pinning'
    [[ ! -e "$ROOT/data/nova-pinning" ]]
}

@test "tracing is as it was" {
    # shellcheck disable=SC2016
    devstack eval 'set -x; run_phase stack none; [[ $- == *x* ]]'
    # shellcheck disable=SC2016
    devstack eval 'run_phase stack none; [[ $- != *x* ]]'
}
