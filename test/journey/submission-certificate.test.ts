/** The certificate of the mail ports, over the life of a service. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { makeSelfSigned } from '../../src/net/tls/self-signed.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';
import { DAY_MS } from '../../src/lib/units.ts';

test('a certificate that ends or is for another name is reported until it is renewed, without a restart', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const renew = (name: string, validMs: number, ageMs = 60_000): void => {
    const validity = { fromMs: Date.now() - ageMs, untilMs: Date.now() + validMs };
    const made = makeSelfSigned(name, validity);
    writeFileSync(cert, made.certificate);
    writeFileSync(key, made.privateKey);
  };
  renew('first.test', 10.5 * DAY_MS, 80 * DAY_MS);
  await using service = await startService({
    args: ['--workers', '1'],
    env: {
      LETTERHAUS_HOSTNAME: 'second.test',
      LETTERHAUS_SUBMISSION_PORTS: '0/tls',
      LETTERHAUS_SMTP_HOST: '127.0.0.1',
      LETTERHAUS_TLS_CERT: cert,
      LETTERHAUS_TLS_KEY: key,
      LETTERHAUS_LOG: 'info',
    },
  });
  const port = service.readyLine.submission_ports?.[0] ?? 0;
  const shown = async (): Promise<unknown> => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    const { subject } = socket.getPeerCertificate();
    socket.destroy();
    return subject.CN;
  };
  assert.equal(await shown(), 'first.test');

  const conditions = () => service.sql('select from operator_conditions');
  const areOpen = async () => (await conditions()).length === 2;
  await waitFor(areOpen, { what: 'both conditions', timeoutMs: 60_000 });
  const open = JSON.parse((await service.cli('attention', '--json')).stdout).data;
  const byType = new Map<string, Record<string, string>>(
    open.map((one: { type: string }) => [one.type, one]),
  );
  const mismatch = byType.get('certificate.mismatch')!;
  assert.equal(mismatch['subject'], `${hostname()}, mail`);
  assert.match(mismatch['message']!, /is for first\.test, and clients connect to second\.test/);
  assert.match(mismatch['remedy']!, /LETTERHAUS_TLS_CERT .* or set LETTERHAUS_HOSTNAME/);
  const expiring = byType.get('certificate.expiring')!;
  assert.match(expiring['message']!, /mail ports on \S+ ends on 20\d\d-\d\d-\d\d, in 10 days\.$/);
  assert.ok(expiring['remedy']!.includes(cert));
  for (const type of byType.keys()) {
    const line = () => service.logs.split('\n').find((one) => one.includes(`"event":"${type}"`));
    await eventually(() => assert.match(line() ?? '', /"level":"warn".*"remedy":/));
  }
  assert.equal((await service.request('GET', '/readyz')).status, 200, 'mail is accepted');
  await service.counted(/^letterhaus_operator_conditions{type="certificate.expiring"} 1$/m);

  renew('second.test', 90 * DAY_MS);
  const isRenewed = async () => (await shown()) === 'second.test';
  // A client may open 120 connections a minute without a log-in.
  await waitFor(isRenewed, { what: 'the new certificate', timeoutMs: 60_000, everyMs: 200 });
  const isQuiet = async () => (await conditions()).length === 0;
  await waitFor(isQuiet, { what: 'the conditions to end', timeoutMs: 60_000 });
  await service.logged(/"level":"info".*The certificate has been renewed\./);
  assert.ok(!service.logs.includes('self-signed certificate'));
});
