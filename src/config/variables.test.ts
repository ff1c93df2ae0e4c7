/** The variables as owners see them in the dashboard. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from './config.ts';

test('owners see which variables are set, and no secret', () => {
  const secrets = {
    DATABASE_URL: 'postgres://u:pass-of-database@db.test/x',
    LETTERHAUS_SECRET_KEY: 'k'.repeat(40),
    LETTERHAUS_RELAY_URL: 'smtp://u:pass-of-relay@relay.test:587',
    LETTERHAUS_METRICS_TOKEN: 'token-of-the-metrics',
    LETTERHAUS_BACKUP_PASSPHRASE: 'a passphrase of backups',
    LETTERHAUS_DNS_PROVIDER: 'route53',
    AWS_ACCESS_KEY_ID: 'AKIAOFTHEDNS',
    AWS_SECRET_ACCESS_KEY: 'secret-of-route53',
  };
  const outcome = readConfig({ ...secrets, LETTERHAUS_HOSTNAME: 'mail.acme.test' });
  assert.ok(outcome.ok);
  const { variables } = outcome.config;
  const of = (name: string) => variables.find((one) => one.name === name);
  assert.deepEqual(of('LETTERHAUS_HOSTNAME'), {
    name: 'LETTERHAUS_HOSTNAME',
    isSet: true,
    isHidden: false,
    value: 'mail.acme.test',
  });
  assert.equal(of('LETTERHAUS_ACME')?.isSet, false);
  const text = JSON.stringify(variables);
  for (const [name, secret] of Object.entries(secrets)) {
    assert.equal(of(name)?.isSet, true, name);
    assert.equal(text.includes(secret), name === 'LETTERHAUS_DNS_PROVIDER', name);
  }
  assert.ok(!/pass-of|token-of|passphrase of/.test(text));
});
