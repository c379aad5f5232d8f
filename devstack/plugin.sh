#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Nova with dedicated and shared CPUs. Devstack sources this as
#
#   plugin.sh stack pre-install|install|post-config|extra|test-config
#   plugin.sh unstack
#   plugin.sh clean
#
# with errexit on and its own functions and variables defined; settings has
# those of this plugin.

# Sourced and not run, with the caller's way of tracing.
# shellcheck disable=SC2154

_NOVA_PINNING_XTRACE=$(set +o | grep xtrace)
set +o xtrace

NOVA_PINNING_SYS_CPU_DIR=${NOVA_PINNING_SYS_CPU_DIR:-/sys/devices/system/cpu}
_NOVA_PINNING_BEFORE=$NOVA_PINNING_STATE_DIR/before
_NOVA_PINNING_FILTERS=nova_pinning.scheduler.filters.all_filters
_NOVA_ALL_FILTERS=nova.scheduler.filters.all_filters
_NOVA_ALL_WEIGHERS=nova.scheduler.weights.all_weighers


# Python
# ------

# The Python in whose environment devstack's pip_install puts nova.
function nova_pinning_python {
    if [[ "${GLOBAL_VENV:-}" == True && -d "${DEVSTACK_VENV:-}" ]]; then
        echo "$DEVSTACK_VENV/bin/python3"
    else
        echo "python${PYTHON3_VERSION:-3}"
    fi
}

# Ends stack.sh unless the nova that was installed before will do. Otherwise
# pip would fetch another, and replace the one from git with it.
function nova_pinning_check_nova {
    local problem
    problem=$("$(nova_pinning_python)" - \
            "$NOVA_PINNING_DIR/pyproject.toml" <<'EOP'
import importlib.metadata
import sys
import tomllib

from packaging import requirements

with open(sys.argv[1], 'rb') as file:
    dependencies = tomllib.load(file)['project']['dependencies']
needed = next(one for one in map(requirements.Requirement, dependencies)
              if one.name == 'nova')
version = importlib.metadata.version('nova')
if not needed.specifier.contains(version, prereleases=True):
    print(f'nova-pinning needs {needed}, and this is {version}; '
          f'set NOVA_BRANCH')
EOP
        ) || die "$LINENO" "nova-pinning finds no nova to install it next to"
    if [[ -n "$problem" ]]; then
        die "$LINENO" "$problem"
    fi
}


# Options
# -------

# nova_pinning_get FILE SECTION OPTION: its values, with blanks in between
function nova_pinning_get {
    if [[ -f "$1" ]]; then
        iniget_multiline "$@"
    fi
}

# nova_pinning_put FILE SECTION OPTION VALUE: no value takes the option out
function nova_pinning_put {
    local file=$1 section=$2 option=$3 value=$4
    if [[ -z "$value" ]]; then
        inidelete "$file" "$section" "$option"
    elif [[ "$option" == available_filters ]]; then
        # A line each; these have no blanks in them.
        # shellcheck disable=SC2086
        iniset_multiline "$file" "$section" "$option" $value
    else
        iniset "$file" "$section" "$option" "$value"
    fi
}

# nova_pinning_set FILE SECTION OPTION VALUE: puts it there, and notes down
# what was there for nova_pinning_restore
function nova_pinning_set {
    local file=$1 section=$2 option=$3 value=$4
    local before
    before=$(nova_pinning_get "$file" "$section" "$option")
    if [[ "$before" == "$value" ]]; then
        return 0
    fi
    nova_pinning_forget "$file" "$section" "$option"
    printf '%s\t%s\t%s\t%s\t%s\n' "$file" "$section" "$option" "$value" \
        "$before" >> "$_NOVA_PINNING_BEFORE"
    nova_pinning_put "$file" "$section" "$option" "$value"
}

# nova_pinning_forget FILE SECTION OPTION: an earlier stack.sh's note
function nova_pinning_forget {
    local key new
    key=$(printf '%s\t%s\t%s\t' "$@"; echo x)
    mkdir -p "$NOVA_PINNING_STATE_DIR"
    touch "$_NOVA_PINNING_BEFORE"
    new=$(mktemp "$_NOVA_PINNING_BEFORE.XXXXXX")
    awk -v key="${key%x}" 'index($0, key) != 1' "$_NOVA_PINNING_BEFORE" \
        > "$new"
    mv "$new" "$_NOVA_PINNING_BEFORE"
}

# Puts back what was there before, but for what was changed since.
function nova_pinning_restore {
    if [[ ! -f "$_NOVA_PINNING_BEFORE" ]]; then
        return 0
    fi
    local line file fields
    while IFS= read -r line; do
        # Not split by read, which takes tabs in a row for one.
        mapfile -t fields < <(tr '\t' '\n' <<< "$line")
        for file in "${fields[0]}" "$(nova_pinning_copy_of "${fields[0]}")"; do
            if [[ -f "$file" \
                    && "$(nova_pinning_get "$file" "${fields[@]:1:2}")" \
                    == "${fields[3]}" ]]; then
                nova_pinning_put "$file" "${fields[@]:1:2}" "${fields[4]}"
            fi
        done
    done < "$_NOVA_PINNING_BEFORE"
    rm "$_NOVA_PINNING_BEFORE"
}

# Of nova.conf devstack makes the file of nova-compute, each time it starts it.
function nova_pinning_copy_of {
    if [[ "$1" == "$NOVA_CONF" ]]; then
        echo "$NOVA_CPU_CONF"
    fi
}


# nova-scheduler
# --------------

# nova_pinning_without LIST ITEM...: a comma list without these, or blanks
function nova_pinning_without {
    local list=$1 kept='' item
    shift
    for item in ${list//,/ }; do
        if [[ " $* " != *" $item "* ]]; then
            kept+=${kept:+,}$item
        fi
    done
    echo "$kept"
}

function nova_pinning_configure_filters {
    local ours available enabled replaced=''
    ours=$(nova_pinning_without "$NOVA_PINNING_ENABLED_FILTERS")
    if [[ -z "$ours" ]]; then
        return 0
    fi
    available=$(nova_pinning_get \
        "$NOVA_CONF" filter_scheduler available_filters)
    available=${available:-$_NOVA_ALL_FILTERS}
    if [[ " $available " != *" $_NOVA_PINNING_FILTERS "* ]]; then
        available+=" $_NOVA_PINNING_FILTERS"
    fi
    nova_pinning_set \
        "$NOVA_CONF" filter_scheduler available_filters "$available"

    enabled=$(nova_pinning_get "$NOVA_CONF" filter_scheduler enabled_filters)
    enabled=${enabled:-${NOVA_FILTERS:-}}
    if [[ -z "$enabled" ]]; then
        # Without its own, nova-scheduler would run no filters but ours.
        die "$LINENO" "$NOVA_CONF has no enabled_filters; set NOVA_FILTERS"
    fi
    if [[ ",$ours," == *,PinnedTopologyFilter,* ]]; then
        replaced=NUMATopologyFilter
    fi
    # Ours come last: the cheap filters first, the exact ones on what is left.
    # shellcheck disable=SC2086
    enabled=$(nova_pinning_without "$enabled" $replaced ${ours//,/ })
    nova_pinning_set "$NOVA_CONF" filter_scheduler enabled_filters \
        "$enabled,$ours"
}

function nova_pinning_configure_weighers {
    local ours weighers
    ours=$(nova_pinning_without "$NOVA_PINNING_WEIGHT_CLASSES")
    if [[ -z "$ours" ]]; then
        return 0
    fi
    weighers=$(nova_pinning_get "$NOVA_CONF" filter_scheduler weight_classes)
    # shellcheck disable=SC2086
    weighers=$(nova_pinning_without \
        "${weighers:-$_NOVA_ALL_WEIGHERS}" ${ours//,/ })
    nova_pinning_set "$NOVA_CONF" filter_scheduler weight_classes \
        "${weighers:+$weighers,}$ours"
}


# nova-compute
# ------------

# Prints cpu_dedicated_set and cpu_shared_set, with a slash in between.
function nova_pinning_cpu_sets {
    PYTHONPATH="$NOVA_PINNING_DIR${PYTHONPATH:+:$PYTHONPATH}" \
        PYTHONDONTWRITEBYTECODE=1 "$(nova_pinning_python)" \
        "$NOVA_PINNING_DIR/devstack/cpu_sets.py" \
        "$NOVA_PINNING_HOST_CLASS" "$NOVA_PINNING_CPU_DEDICATED_SET" \
        "$NOVA_PINNING_CPU_SHARED_SET" "$NOVA_PINNING_SYS_CPU_DIR"
}

# nova_pinning_provider_config CLASS: prints a provider.yaml
function nova_pinning_provider_config {
    cat <<EOP
# Written by nova-pinning's devstack plugin. nova-compute reads it when it
# starts, and takes no trait away that is no longer in it.
meta:
  schema_version: '1.0'
providers:
- identification:
    uuid: \$COMPUTE_NODE
  traits:
    additional:
    - CUSTOM_PINNING_${1^^}
EOP
}

# nova.conf and not nova-cpu.conf, which devstack makes of it after this
# phase. What local.conf has for nova-cpu.conf is merged into that, and wins.
function nova_pinning_configure_compute {
    local sets directory new
    sets=$(nova_pinning_cpu_sets)
    nova_pinning_set "$NOVA_CONF" compute cpu_dedicated_set "${sets%/*}"
    nova_pinning_set "$NOVA_CONF" compute cpu_shared_set "${sets#*/}"

    directory=$NOVA_CONF_DIR/provider_config
    if [[ -z "$NOVA_PINNING_HOST_CLASS" ]]; then
        rm -f "$directory/nova-pinning.yaml"
        return 0
    fi
    mkdir -p "$directory"
    # nova-compute reads only what ends in .yaml.
    new=$directory/nova-pinning.new
    nova_pinning_provider_config "$NOVA_PINNING_HOST_CLASS" > "$new"
    mv "$new" "$directory/nova-pinning.yaml"
    nova_pinning_set "$NOVA_CONF" compute provider_config_location \
        "$directory"
}


# nova-api and tempest
# --------------------

function nova_pinning_register_flavors {
    openstack --os-cloud devstack-admin pinning flavor apply --yes --brief \
        "$NOVA_PINNING_CATALOGUE" \
        || die "$LINENO" "flavors of $NOVA_PINNING_CATALOGUE are not in place"
}

_NOVA_PINNING_TEMPEST_OPTIONS=(
    host_command host_addresses virsh_command scheduler_log_command
    may_mark_hosts traits_seconds pci_alias
)

# tempest.conf, which devstack has made anew before this phase.
function nova_pinning_configure_tempest {
    local option variable isolated line
    nova_pinning_unconfigure_tempest
    for option in "${_NOVA_PINNING_TEMPEST_OPTIONS[@]}"; do
        variable=NOVA_PINNING_TEMPEST_${option^^}
        if [[ -n "${!variable}" ]]; then
            iniset "$TEMPEST_CONFIG" pinning "$option" "${!variable}"
        fi
    done
    isolated=$(nova_pinning_get \
        "$NOVA_CONF" scheduler enable_isolated_aggregate_filtering)
    if [[ -n "$isolated" ]]; then
        iniset "$TEMPEST_CONFIG" pinning isolated_aggregates "$isolated"
    fi
    while read -r line; do
        if [[ -n "$line" ]]; then
            iniadd_literal "$TEMPEST_CONFIG" pinning cpu_sets "$line"
        fi
    done < <(nova_pinning_this_host
        tr ';' '\n' <<< "$NOVA_PINNING_TEMPEST_CPU_SETS")
}

function nova_pinning_unconfigure_tempest {
    local option
    if [[ -f "${TEMPEST_CONFIG:-}" ]]; then
        for option in "${_NOVA_PINNING_TEMPEST_OPTIONS[@]}" \
                isolated_aggregates cpu_sets; do
            inidelete "$TEMPEST_CONFIG" pinning "$option"
        done
    fi
}

# Prints the name and the CPU sets that nova-compute has on this node, if any.
function nova_pinning_this_host {
    if is_service_enabled n-cpu; then
        local host dedicated shared
        host=$(nova_pinning_get "$NOVA_CPU_CONF" DEFAULT host)
        host=${host:-$(hostname)}
        dedicated=$(nova_pinning_get \
            "$NOVA_CPU_CONF" compute cpu_dedicated_set)
        shared=$(nova_pinning_get "$NOVA_CPU_CONF" compute cpu_shared_set)
        host+=${dedicated:+ dedicated=${dedicated// /}}
        echo "$host${shared:+ shared=${shared// /}}"
    fi
}


# Phases
# ------

# Ends stack.sh before it does anything, if it could not go well.
function nova_pinning_check {
    local filter message
    "$(nova_pinning_python)" -c \
        'import sys; sys.exit(sys.version_info < (3, 11))' \
        || die "$LINENO" \
            "nova-pinning needs Python 3.11 or newer; set PYTHON3_VERSION"
    for filter in ${NOVA_PINNING_ENABLED_FILTERS//,/ }; do
        if [[ "$filter" == *.* ]]; then
            die "$LINENO" "NOVA_PINNING_ENABLED_FILTERS has $filter, but" \
                "takes bare class names, such as ${filter##*.}"
        fi
    done
    if is_service_enabled n-cpu; then
        case "$NOVA_PINNING_HOST_CLASS" in
            dedicated|shared|'') ;;
            *)
                die "$LINENO" "NOVA_PINNING_HOST_CLASS is" \
                    "$NOVA_PINNING_HOST_CLASS; set it to dedicated or" \
                    "shared, or to nothing"
                ;;
        esac
        message=$(nova_pinning_cpu_sets 2>&1) || die "$LINENO" \
            "NOVA_PINNING_CPU_DEDICATED_SET and NOVA_PINNING_CPU_SHARED_SET" \
            "cannot be had: $message"
    fi
    if is_service_enabled n-api && [[ -n "$NOVA_PINNING_CATALOGUE" \
            && ! -r "$NOVA_PINNING_CATALOGUE" ]]; then
        die "$LINENO" "NOVA_PINNING_CATALOGUE: there is no file" \
            "$NOVA_PINNING_CATALOGUE that can be read"
    fi
}

# Only where something imports it: nova-scheduler, and nova-api for the checks
# of extra specs. The flavors are registered next to the latter.
function nova_pinning_install {
    local extras=''
    if is_service_enabled n-sch n-api; then
        echo_summary "Installing nova-pinning"
        nova_pinning_check_nova
        if is_service_enabled n-api; then
            extras=tools
        fi
        setup_develop "$NOVA_PINNING_DIR" "$extras"
    fi
}

function nova_pinning_configure {
    # Devstack runs this beside the phase, and it writes nova.conf too.
    async_wait configure_neutron_nova
    if is_service_enabled n-sch; then
        echo_summary "Having nova-scheduler load nova-pinning"
        nova_pinning_configure_filters
        nova_pinning_configure_weighers
    fi
    if is_service_enabled n-cpu; then
        echo_summary "Setting CPUs aside and marking the compute host"
        nova_pinning_configure_compute
    fi
}

function nova_pinning_unconfigure {
    nova_pinning_restore
    nova_pinning_unconfigure_tempest
    rm -f "$NOVA_CONF_DIR/provider_config/nova-pinning.yaml"
}

case "$1 ${2:-}" in
    'stack pre-install')
        nova_pinning_check
        ;;
    'stack install')
        nova_pinning_install
        ;;
    'stack post-config')
        nova_pinning_configure
        ;;
    'stack extra')
        if is_service_enabled n-api && [[ -n "$NOVA_PINNING_CATALOGUE" ]]; then
            echo_summary "Registering the flavors of nova-pinning"
            nova_pinning_register_flavors
        fi
        ;;
    'stack test-config')
        if is_service_enabled tempest; then
            echo_summary "Configuring tempest for nova-pinning"
            nova_pinning_configure_tempest
        fi
        ;;
    'unstack '*)
        nova_pinning_unconfigure
        ;;
    'clean '*)
        nova_pinning_unconfigure
        pip_uninstall nova-pinning
        rm -rf "$NOVA_PINNING_STATE_DIR"
        ;;
esac

$_NOVA_PINNING_XTRACE
