/**
 * A machine is lost. Its backup is restored on another one, on hold, and mail that was sent before the backup is not
 * sent again.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { cleanEnv, letterhaus, type Env } from '../support/letterhaus.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { opening, RECIPIENT } from '../support/sealing.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const ADDRESS = '127.0.1.1';
const FROM = { from: 'Acme <hello@acme.example>' };

for (const where of ['embedded', 'external'] as const) {
  test(`a lost machine is restored into an ${where} database, and its mail continues`, async () => {
    const folder = temporaryFolder();
    const passphraseFile = join(folder, 'passphrase');
    writeFileSync(passphraseFile, 'correct horse battery staple\n');
    const byPassphrase = ['--passphrase-file', passphraseFile];
    const sealed = where === 'embedded' ? byPassphrase : ['--recipient', RECIPIENT];
    const opened = where === 'embedded' ? byPassphrase : opening();

    const replies = Promise.withResolvers<void>();
    await using mx = await startFakeMx(
      { messageReplies: { doubt: { after: replies.promise, reply: '250 2.0.0 OK' } } },
      { address: ADDRESS },
    );
    await using dns = await startFakeDns({
      'shop.test': { MX: ['10 mx.test'] },
      'mx.test': { A: [ADDRESS] },
    });
    await using receiver = await startReceiver();
    const env: Env = {
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_MX_PORT: String(mx.port),
      LETTERHAUS_HOSTNAME: 'out.letterhaus.example',
    };
    const copies = (local: string): number =>
      mx.messages.filter(({ recipients }) => recipients.some((one) => one.startsWith(local)))
        .length;

    // The machine that is lost: at the backup one email has ended, one is under way, one is for later.
    const lost = await startService({ database: 'own', dns, env });
    await lost.addLiveDomain('acme.example');
    const key = await lost.liveKey();
    const webhook = { url: receiver.url, events: ['email.delivered'] };
    await lost.request('POST', '/v1/webhooks', { key, body: webhook });
    const done = await lost.send({ ...FROM, to: 'done@shop.test' }, { key });
    await lost.waitForStatus(done, 'delivered', { key });
    await receiver.waitForCount(1);
    const later = new Date(Date.now() + 2 * 3600_000).toISOString();
    const scheduled = await lost.send(
      { ...FROM, to: 'later@shop.test', scheduled_at: later },
      { key },
    );
    const doubt = await lost.send({ ...FROM, to: 'doubt@shop.test' }, { key });
    await lost.waitForStatus(doubt, 'sending', { key });
    const known = await cursorOf(lost, key);
    const backup = await lost.cli('backup', ...sealed, folder);
    assert.equal(backup.code, 0, backup.stderr);
    assert.match(backup.stdout, /\.backup has 3 emails, 2 recipients of them open, as of /);
    const [name] = readdirSync(folder).filter((one) => one.endsWith('.backup'));
    const file = join(folder, name!);
    assert.equal(statSync(file).mode & 0o777, 0o600);

    // It sends what was under way, and is gone.
    replies.resolve();
    await lost.waitForStatus(doubt, 'delivered', { key });
    await receiver.waitForCount(2);
    const unknown = await cursorOf(lost, key);
    await lost.killGroup9();
    await lost[Symbol.asyncDispose]();
    assert.equal(copies('doubt'), 1);

    const verified = await letterhaus(['backup', '--verify', file], {});
    assert.match(verified.stdout, /complete and unchanged: 3 emails, 2 recipients of them open/);

    await using database = where === 'external' ? await emptyDatabase() : null;
    const dataDir = join(temporaryFolder(), 'data');
    const home = { LETTERHAUS_DATA_DIR: dataDir, DATABASE_URL: database?.url };
    const wrong = join(folder, 'wrong');
    writeFileSync(wrong, 'another passphrase\n');
    const refused = await letterhaus(['restore', '--passphrase-file', wrong, file], home);
    assert.equal(refused.code, 2);
    assert.equal(
      refused.stderr,
      'letterhaus: The passphrase does not open the secret key of this backup.\n',
    );
    assert.equal(existsSync(dataDir), false);

    const restored = await letterhaus(['restore', ...opened, file], cleanEnv(home));
    assert.equal(restored.code, 0, restored.stderr);
    assert.match(restored.stdout, /The installation is on hold/);
    const again = await letterhaus(['restore', ...opened, file], cleanEnv(home));
    assert.equal(again.code, 2);
    assert.match(again.stderr, /This database has data/);

    const options = { dns, env, dataDir };
    await using service = await startService({ ...options, database: database ?? 'own' });
    try {
      const ready = await service.request('GET', '/readyz', { key: null });
      assert.deepEqual([ready.status, ready.body], [200, { status: 'ok', on_hold: true }]);
      await service.counted(/^letterhaus_on_hold 1$/m);
      assert.equal((await service.email(done, key)).status, 'delivered');
      const fresh = await service.send({ ...FROM, to: 'fresh@shop.test' }, { key });
      const why = await service.request('GET', `/v1/emails/${fresh}/diagnosis`, { key });
      assert.equal(why.body.recipients[0].held_by.limit, 'installation');
      const stream = await service.request('GET', `/v1/events?after=${known}`, { key });
      assert.equal(stream.status, 200, stream.text);
      const gone = await service.request('GET', `/v1/events?after=${unknown}`, { key });
      assert.equal(gone.status, 409, gone.text);

      const preview = await service.cliJson('release', '--dry-run');
      const [{ in_doubt: inDoubt, unsent }] = preview.mail;
      assert.deepEqual([inDoubt, unsent], [1, 2]);
      assert.deepEqual(
        preview.in_doubt.map((one: { email_id: string }) => one.email_id),
        [doubt],
      );
      const shown = await service.cli('release', '--dry-run');
      assert.match(shown.stdout, /In doubt: .*\n.*\n.*doubt@shop\.test/);
      assert.equal(mx.messages.length, 2);
      assert.equal(receiver.received.length, 2);

      const released = await service.cli('release', '--except-in-doubt');
      assert.match(released.stdout, /1 recipients in doubt stay on hold in the queue/);
      await service.waitForStatus(fresh, 'delivered', { key });
      await service.clock.advance({ hours: 3 });
      await service.waitForStatus(scheduled, 'delivered', { key });
      await receiver.waitForCount(4);
      const signed = mx.messages.filter(({ raw }) => /^DKIM-Signature: /m.test(raw.toString()));
      assert.equal(signed.length, mx.messages.length);
      assert.deepEqual(['done', 'doubt', 'later', 'fresh'].map(copies), [1, 1, 1, 1]);

      // The operator decides about the one in doubt.
      await service.cli('queue', 'release', '--email', doubt);
      await service.waitForStatus(doubt, 'delivered', { key });
      assert.equal(copies('doubt'), 2);
      await waitFor(
        async () => !(await service.request('GET', '/readyz', { key: null })).body.on_hold,
        {
          what: 'readiness without hold',
        },
      );
      assert.equal((await service.cli('release')).code, 1);
    } finally {
      await service[Symbol.asyncDispose]();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
}

/** The cursor of a reader that has read everything. */
async function cursorOf(service: Service, key: string): Promise<string> {
  const { status, body, text } = await service.request('GET', '/v1/events?after=latest', { key });
  assert.equal(status, 200, text);
  return body.cursor;
}
