/** The names for which the service orders certificates. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../config/config.ts';
import { orderedNames } from './wanted.ts';

const SYSTEM = { isRoot: false, hostname: 'box', cloneDir: '/srv', localIps: [] };
const DIRECTORY = 'LETTERHAUS_ACME_DIRECTORY_URL';

function read(env: Record<string, string>) {
  return readConfig({ LETTERHAUS_ACME: 'on', ...env }, SYSTEM);
}

function namesOf(env: Record<string, string>): (string | null)[] {
  const result = read(env);
  assert.ok(result.ok, JSON.stringify(result));
  const { api, tracking, mail } = orderedNames(result.config);
  return [api, tracking, mail];
}

const PUBLIC = { LETTERHAUS_PUBLIC_URL: 'https://API.acme.test:8443/x' };
const LINKS = { LETTERHAUS_TRACKING_URL: 'https://links.acme.test' };
const MAIL = { LETTERHAUS_HOSTNAME: 'mail.acme.test', LETTERHAUS_INBOUND_PORT: '25' };

test('certificates are ordered for the names of the configuration, and only when that is on', () => {
  const all = { ...PUBLIC, ...LINKS, ...MAIL };
  assert.deepEqual(namesOf(all), ['api.acme.test', 'links.acme.test', 'mail.acme.test']);
  assert.deepEqual(namesOf({ ...all, LETTERHAUS_ACME: 'off' }), [null, null, null]);
  const same = { ...PUBLIC, LETTERHAUS_TRACKING_URL: 'https://api.acme.test/links' };
  assert.deepEqual(namesOf(same), ['api.acme.test', null, null]);
});

test('no certificate is ordered behind a proxy, beside one of the operator, or for a name that is not public', () => {
  const proxied = { ...PUBLIC, ...LINKS, LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1' };
  assert.deepEqual(namesOf({ ...proxied, ...MAIL }), [null, null, 'mail.acme.test']);
  const own = { LETTERHAUS_API_TLS_CERT: '/a', LETTERHAUS_API_TLS_KEY: '/a' };
  assert.deepEqual(namesOf({ ...PUBLIC, ...own }), [null, null, null]);
  const ownMail = { LETTERHAUS_TLS_CERT: '/a', LETTERHAUS_TLS_KEY: '/a' };
  assert.deepEqual(namesOf({ ...MAIL, ...ownMail }), [null, null, null]);
  for (const url of ['http://api.acme.test', 'https://192.0.2.1', 'https://[2001:db8::1]']) {
    assert.deepEqual(namesOf({ LETTERHAUS_PUBLIC_URL: url }), [null, null, null], url);
  }
  assert.deepEqual(namesOf({ LETTERHAUS_INBOUND_PORT: '25' }), [null, null, null]);
  assert.deepEqual(namesOf({ ...MAIL, LETTERHAUS_INBOUND_PORT: 'off' }), [null, null, null]);
});

test('clear text to an authority is for this machine only, and mistakes are named', () => {
  const wrong = {
    [DIRECTORY]: ['http://ca.test/', 'ftp://ca.test/', 'https://a:b@ca.test/', 'ca.test'],
    LETTERHAUS_ACME_EMAIL: ['ops', 'a@b.test,c@d.test', 'a@b.test?x'],
    LETTERHAUS_ACME_HTTP_PORT: ['x', '70000', 'name.test:80'],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      const result = read({ ...PUBLIC, [name]: value });
      assert.ok(!result.ok && result.problems[0]?.startsWith(`${name}: `), value);
    }
  }
  const local = read({ ...PUBLIC, [DIRECTORY]: 'http://127.0.0.1:14000/dir' });
  assert.ok(local.ok);
  assert.equal(local.config.acme?.directoryUrl, 'http://127.0.0.1:14000/dir');
  const plain = read(PUBLIC);
  assert.ok(plain.ok);
  assert.deepEqual(plain.config.acme?.http, { host: null, port: 80 });
  assert.equal(new URL(plain.config.acme.directoryUrl).host, 'acme-v02.api.letsencrypt.org');
});
