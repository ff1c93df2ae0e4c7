/** MTA-STS policies are not fetched from private networks. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { startFakeDns } from '../support/fake-dns.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

test('a policy host at a private address is not connected to', async () => {
  await using dns = await startFakeDns({
    'inside.net': { MX: ['10 mx.inside.net'] },
    'mx.inside.net': { A: ['127.0.0.1'] },
    '_mta-sts.inside.net': { TXT: ['v=STSv1; id=1;'] },
    'mta-sts.inside.net': { A: ['169.254.169.254'] },
  });
  await using service = await startService({
    dns,
    env: { LETTERHAUS_HOSTNAME: 'out.letterhaus.net' },
  });
  await service.addLiveDomain('acme.net');
  const key = await service.liveKey();
  await service.send({ from: 'us@acme.net', to: 'kim@inside.net' }, { key });
  const said = () => service.logs.split('\n').find((line) => /MTA-STS policy/.test(line));
  const line = await waitFor(said, { what: 'a word about the policy' });
  assert.ok(
    dns.queries.some(({ name }) => name === 'mta-sts.inside.net'),
    'its address is known',
  );
  assert.match(JSON.parse(line).problem, /169\.254\.169\.254.*not public|not public.*169\.254/);
});
