# SPDX-License-Identifier: Apache-2.0
"""Placement as nova.conf says to reach it."""

from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading as ks_loading
from oslo_config import cfg

from nova_pinning import errors
from nova_pinning.placement import client

_GROUP = 'placement'
#: How long to wait for an answer where [placement] does not say.
_TIMEOUT_SECONDS = 60


def connect(conf: cfg.ConfigOpts) -> client.PlacementClient:
    """Placement as nova's services reach it; nothing is asked yet.

    :param conf: nova.conf
    :raises errors.InputError: if it does not say how
    """
    for register in (ks_loading.register_auth_conf_options,
                     ks_loading.register_session_conf_options,
                     ks_loading.register_adapter_conf_options):
        register(conf, _GROUP)
    conf.set_default('service_type', 'placement', group=_GROUP)
    conf.set_default('valid_interfaces', ['internal', 'public'], group=_GROUP)
    conf.set_default('timeout', _TIMEOUT_SECONDS, group=_GROUP)
    where = errors.Location(', '.join(conf.config_file) or 'nova.conf',
                            key=f'[{_GROUP}]')
    try:
        auth = ks_loading.load_auth_from_conf_options(conf, _GROUP)
        if auth is None:
            raise errors.InputError(
                'it does not say how to log in (auth_type)', where)
        session = ks_loading.load_session_from_conf_options(
            conf, _GROUP, auth=auth)
        return client.PlacementClient(
            ks_loading.load_adapter_from_conf_options(conf,
                                                      _GROUP,
                                                      session=session,
                                                      auth=auth))
    except (cfg.Error, ksa_exceptions.ClientException) as error:
        raise errors.InputError(str(error), where) from error
