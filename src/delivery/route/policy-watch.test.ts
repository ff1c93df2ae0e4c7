/** MTA-STS policies are fetched again from a policy server of the test before they expire. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeDns } from '../../../test/support/fake-dns.ts';
import { startPolicyServer } from '../../../test/support/policy-server.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import type { Config } from '../../config/config.ts';
import { StsPolicies } from './transport-security-store.ts';
import { renewStsPolicies } from './policy-watch.ts';

const POLICY = { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 7 * 86_400 } as const;

test('a day-old policy is fetched again without new mail, and kept when the fetch fails', async () => {
  await using database = await testDatabase();
  await using server = await startPolicyServer();
  await using dns = await startFakeDns({
    '_mta-sts.a.test': { TXT: ['v=STSv1; id=1;'] },
    'mta-sts.a.test': { A: ['127.0.0.1'] },
  });
  const { db } = database;
  const config = {
    dnsServers: [dns.server],
    allowPrivateNetworks: true,
    mtaStsPort: server.port,
  } as unknown as Config;
  const results: string[] = [];
  const log = { info: ({ result }: { result: string }) => results.push(result) } as never;
  const policies = new StsPolicies(db);
  await policies.save('a.test', '1', POLICY);

  await renewStsPolicies(db, { config, log });
  assert.deepEqual(results, [], 'a new policy is not fetched again');
  await db.query(`update clock set skew = interval '25 hours'`);
  // No certificate authority of Node's signed the certificate of the test server.
  await renewStsPolicies(db, { config, log });
  assert.deepEqual(results, ['sts-webpki-invalid']);
  const { cached, failedAgoMs } = await policies.load('a.test');
  assert.deepEqual(cached?.policy, POLICY);
  assert.ok(failedAgoMs !== null);
});
