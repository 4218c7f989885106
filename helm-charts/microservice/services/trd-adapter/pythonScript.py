# -*- coding: utf-8 -*-
"""Signed calls of an API gateway, for scripts that run on Python 2.

The addresses of the gateways come from the environment: GATEWAY_URL_DEV, GATEWAY_URL_TEST and
GATEWAY_URL_PRODUCT_EXT. An environment name that is not known means DEV.
"""
import hashlib
import os
import time

try:
    import urllib2
except ImportError:  # Python 3
    import urllib.error
    import urllib.request as urllib2
    urllib2.HTTPError = urllib.error.HTTPError

SIGNATURE_METHOD = 'md5'
VERSION = 'v1'
TIMEOUT_SECONDS = 60

GATEWAYS = {
    'DEV': 'GATEWAY_URL_DEV',
    'TEST': 'GATEWAY_URL_TEST',
    'PRODUCT': 'GATEWAY_URL_PRODUCT_EXT',
    'PRODUCT_EXT': 'GATEWAY_URL_PRODUCT_EXT',
}


def doGet(apiPath, appKey, secret, serviceName, env):
    """Returns the text that the gateway answers to a GET."""
    return _call(apiPath, None, appKey, secret, serviceName, env)


def doPost(apiPath, body, appKey, secret, serviceName, env):
    """Returns the text that the gateway answers to a POST of the body."""
    return _call(apiPath, _bytes(body), appKey, secret, serviceName, env)


def _call(apiPath, body, appKey, secret, serviceName, env):
    method, _, query = apiPath.partition('?')
    message = _query_message(query) if body is None else body
    headers = _signed_headers(serviceName, method, message, appKey, secret)
    url = '%s/%s/%s' % (_gateway(env), serviceName, apiPath.lstrip('/'))
    try:
        response = urllib2.urlopen(urllib2.Request(url, body, headers), timeout=TIMEOUT_SECONDS)
    except urllib2.HTTPError as answer:
        # A refusal is an answer too: its text says why.
        response = answer
    try:
        return response.read().decode('utf-8', 'replace')
    finally:
        response.close()


def _gateway(env):
    variable = GATEWAYS.get(env, GATEWAYS['DEV'])
    url = os.environ.get(variable, '').rstrip('/')
    if not url:
        raise ValueError('no gateway: the environment variable %s is not set' % variable)
    return url


def _query_message(query):
    """The name=value pairs of a query, one per name, in the order of the names."""
    pairs = {}
    for pair in query.split('&'):
        name, equals, value = pair.partition('=')
        if equals:
            pairs[name] = value
    return '&'.join('%s=%s' % (name, pairs[name]) for name in sorted(pairs))


def _signed_headers(serviceName, method, message, appKey, secret):
    timestamp = time.strftime('%Y%m%d%H%M%S', time.localtime())
    signed = [serviceName, method, message, 'appKey=', appKey, 'format=json', 'timestamp=', timestamp,
              'signatureMethod=', SIGNATURE_METHOD, 'version=', VERSION, secret]
    digest = hashlib.md5(b''.join(_bytes(part) for part in signed)).hexdigest().upper()
    return {
        'appKey': appKey,
        'timestamp': timestamp,
        'signatureMethod': SIGNATURE_METHOD,
        'signature': digest,
        'version': VERSION,
    }


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode('utf-8')
