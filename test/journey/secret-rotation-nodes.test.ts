/** A configured secret key is replaced on several nodes, which are restarted one after the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EMAIL } from '../support/api.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { startService } from '../support/service.ts';

const [OLD, NEW] = ['o'.repeat(40), 'n'.repeat(40)];

test('a rotation of the secret key continues only when every node has the keys of its next step', async () => {
  await using first = await startService({
    args: ['--workers', '1'],
    env: { LETTERHAUS_SECRET_KEY: OLD },
  });
  const { DATABASE_URL } = first.env;
  const startSecond = (keys: string) =>
    startService({
      args: ['--workers', '1'],
      env: { DATABASE_URL, LETTERHAUS_SECRET_KEY: keys },
    });
  const restartFirst = async (keys: string) => {
    await first.stop();
    first.env['LETTERHAUS_SECRET_KEY'] = keys;
    await first.restart();
  };
  const rotate = async (keys: string, wait: string) => {
    const env = { ...first.env, LETTERHAUS_SECRET_KEY: keys };
    const end = await letterhaus(['secrets', 'rotate', '--wait', wait, '--json'], env);
    return { ...end, step: end.code === 0 ? JSON.parse(end.stdout).step : null };
  };
  const [both, turned] = [`${OLD},${NEW}`, `${NEW},${OLD}`];
  const send = () =>
    first.request('POST', '/v1/emails', { key: first.testKey, body: { ...EMAIL } });

  {
    await using _second = await startSecond(both);
    // The first does not know the new key yet: to seal with it would leave it with DKIM keys it cannot open.
    const early = await rotate(both, '2');
    assert.equal(early.code, 1);
    assert.match(early.stderr, /do not use the same secret keys/);
    await restartFirst(both);
    assert.equal((await rotate(both, '120')).step, 'switch');
    // Sealing anew waits until nobody seals with the old key any more.
    assert.equal((await rotate(turned, '2')).code, 1);
    await restartFirst(turned);
    assert.equal((await rotate(turned, '2')).code, 1);
  }
  assert.equal((await rotate(turned, '120')).step, 'sealed');
  const { status, body } = await send();
  assert.equal(status, 202);
  await first.waitForStatus(body.id, 'delivered');
});
