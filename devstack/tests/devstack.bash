#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# As much of devstack as the plugin sees of it:
#
#   devstack.bash stack|unstack|clean
#   devstack.bash run_phase stack post-config
#
# Each function stands for the one of devstack with its name. Its comment says
# which behaviour of that one the plugin builds on. Everything happens under
# $ROOT; what would go further is written to $ROOT/calls. From the environment
# come, besides what local.conf could set,
#
# LOCAL_NOVA_CONF, LOCAL_NOVA_CPU_CONF
#     "section option value", as a post-config section of local.conf has it
# OPENSTACK_STATUS
#     what openstack ends with
# NO_PLUGIN
#     yes: devstack alone

# stack.sh and the others run with errexit, and let bash expand what is unset.
set -o errexit

function called {
    echo "$*" >> "$ROOT/calls"
}

function echo_summary {
    echo "$@"
}

# Prints its words after the line number, and ends the script.
function die {
    shift
    echo "[ERROR] $*" >&2
    exit 1
}

# True if any of the names is in ENABLED_SERVICES.
function is_service_enabled {
    local service
    for service in "$@"; do
        if [[ ",$ENABLED_SERVICES," == *",$service,"* ]]; then
            return 0
        fi
    done
    return 1
}

# inc/ini-config. Sections and options are matched as they are written, from
# the start of a line. An option that is new comes right below the head of its
# section, a section that is new at the end of the file.

# _edit FILE SECTION OPTION set|replace [LINE]
function _edit {
    local new
    new=$(mktemp "$ROOT/ini.XXXXXX")
    awk -v section="[$2]" -v option="$3" -v how="$4" -v line="${5:-}" '
        /^\[/ { inside = index($0, section) == 1 }
        inside && $0 ~ "^" option "[ \t]*=" {
            if (how == "replace" && line != "") print line
            if (how == "replace") next
        }
        { print }
        inside && how == "set" && index($0, section) == 1 { print line }
        ' "$1" > "$new"
    cat "$new" > "$1"
    rm "$new"
}

function _has_section {
    grep -qF "[$2]" "$1" 2> /dev/null || printf '\n[%s]\n' "$2" >> "$1"
}

# Prints the values of all lines of an option, with blanks in between; nothing
# and no error if there are none. A file that is not there is an error.
function iniget_multiline {
    awk -v section="[$2]" -v option="$3" '
        /^\[/ { inside = index($0, section) == 1 }
        inside && $0 ~ "^" option "[ \t]*=" {
            sub(/^[^=]*=[ \t]*/, "")
            printf "%s%s", found++ ? " " : "", $0
        }
        END { if (found) print "" }' "$1"
}

# Replaces the value in each line of the option; makes what is not there.
function iniset {
    _has_section "$1" "$2"
    if [[ -n "$(iniget_multiline "$1" "$2" "$3")" ]]; then
        _edit "$1" "$2" "$3" replace "$3 = $4"
    else
        inidelete "$1" "$2" "$3"
        _edit "$1" "$2" "$3" set "$3 = $4"
    fi
}

# A line for each word, in their order, in place of all lines that there were.
function iniset_multiline {
    local file=$1 section=$2 option=$3 i
    shift 3
    _has_section "$file" "$section"
    inidelete "$file" "$section" "$option"
    for ((i = $#; i > 0; i--)); do
        _edit "$file" "$section" "$option" set "$option = ${!i}"
    done
}

# One more line, below the head of a section that is there.
function iniadd_literal {
    _edit "$1" "$2" "$3" set "$3 = $4"
}

# Takes out all lines of an option. A file that is not there is an error.
function inidelete {
    _edit "$1" "$2" "$3" replace
}

# inc/python. Both install into DEVSTACK_VENV with GLOBAL_VENV, and else into
# the system; setup_develop wants the name of the package in setup.cfg, and
# takes extras with commas in between.
function setup_develop {
    local name
    name=$(awk '/^name.*=/ {print $3}' "$1/setup.cfg")
    called "setup_develop $name${2:+[$2]} from $1"
}

function pip_uninstall {
    called "pip_uninstall $*"
}

function hostname {
    echo node-1
}

# On the path of stack.sh, with clouds.yaml in place.
function openstack {
    called "openstack $*"
    return "${OPENSTACK_STATUS:-0}"
}

# lib/nova: made anew by each stack.sh.
function create_nova_conf {
    rm -f "$NOVA_CONF"
    iniset "$NOVA_CONF" DEFAULT debug True
    iniset "$NOVA_CONF" filter_scheduler enabled_filters "$NOVA_FILTERS"
    iniset "$NOVA_CONF" filter_scheduler track_instance_changes False
}

# lib/nova: whatever was in nova-cpu.conf is gone, but for what local.conf has.
function start_nova_compute {
    cp "$NOVA_CONF" "$NOVA_CPU_CONF"
    merge_config "$NOVA_CPU_CONF" "${LOCAL_NOVA_CPU_CONF:-}"
}

# inc/async: begun before post-config, and waited for after it. Whoever writes
# nova.conf before it has ended loses what he wrote; a second wait is nothing.
function configure_neutron_nova {
    cp "$NOVA_CONF" "$ROOT/read_by_neutron"
}

function async_wait {
    if [[ -e "$ROOT/read_by_neutron" ]]; then
        iniset "$ROOT/read_by_neutron" neutron region_name RegionOne
        mv "$ROOT/read_by_neutron" "$NOVA_CONF"
    fi
}

# lib/tempest: made anew by each stack.sh.
function configure_tempest {
    rm -f "$TEMPEST_CONFIG"
    iniset "$TEMPEST_CONFIG" compute min_compute_nodes 1
}

# inc/meta-config: an option of local.conf takes the place of what is there.
function merge_config {
    local section option value
    if read -r section option value <<< "$2" && [[ -n "$section" ]]; then
        inidelete "$1" "$section" "$option"
        iniset "$1" "$section" "$option" "$value"
    fi
}

# functions-common: sourced, with mode and phase, for each plugin.
function run_phase {
    if [[ "${NO_PLUGIN:-no}" == no ]]; then
        # shellcheck source=devstack/plugin.sh
        source "$PLUGIN/devstack/plugin.sh" "$@"
    fi
}

function stack {
    run_phase stack pre-install
    run_phase stack install
    if is_service_enabled n-sch n-cpu n-api; then
        create_nova_conf
        configure_neutron_nova
    fi
    run_phase stack post-config
    merge_config "$NOVA_CONF" "${LOCAL_NOVA_CONF:-}"
    async_wait configure_neutron_nova
    if is_service_enabled n-cpu; then
        start_nova_compute
    fi
    run_phase stack extra
    # The phases of extras.d, where tempest is, come before those of plugins.
    if is_service_enabled tempest; then
        configure_tempest
        called "tempest plugins: $TEMPEST_PLUGINS"
    fi
    run_phase stack test-config
}

function unstack {
    run_phase unstack
}

function clean {
    unstack
    run_phase clean
}

DATA_DIR=$ROOT/data
NOVA_CONF_DIR=$ROOT/etc/nova
NOVA_CONF=$NOVA_CONF_DIR/nova.conf
NOVA_CPU_CONF=$NOVA_CONF_DIR/nova-cpu.conf
NOVA_FILTERS=${NOVA_FILTERS-ComputeFilter,SameHostFilter,NUMATopologyFilter}
TEMPEST_CONFIG=$ROOT/tempest.conf
# lib/tempest is sourced before the settings of plugins, and has this default.
TEMPEST_PLUGINS=${TEMPEST_PLUGINS:-0}
mkdir -p "$NOVA_CONF_DIR" "$DATA_DIR"

PLUGIN=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=devstack/settings
source "$PLUGIN/devstack/settings"

"$@"
