/** The certificate of the mail ports, over the life of a service. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { makeSelfSigned } from '../../src/net/tls/self-signed.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

test('a renewed certificate is used for the next connection without a restart', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const renew = (name: string): void => {
    const validity = { fromMs: Date.now() - 60_000, untilMs: Date.now() + 3_600_000 };
    const made = makeSelfSigned(name, validity);
    writeFileSync(cert, made.certificate);
    writeFileSync(key, made.privateKey);
  };
  renew('first.test');
  await using service = await startService({
    args: ['--workers', '1'],
    env: {
      LETTERHAUS_SUBMISSION_PORTS: '0/tls',
      LETTERHAUS_SMTP_HOST: '127.0.0.1',
      LETTERHAUS_TLS_CERT: cert,
      LETTERHAUS_TLS_KEY: key,
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
  renew('second.test');
  const isRenewed = async () => (await shown()) === 'second.test';
  // A client may open 120 connections a minute without a log-in.
  await waitFor(isRenewed, { what: 'the new certificate', timeoutMs: 60_000, everyMs: 200 });
  assert.ok(!service.logs.includes('self-signed certificate'));
});
