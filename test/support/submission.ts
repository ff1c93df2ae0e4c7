/** Handing in mail by SMTP as applications do (nodemailer), and as the test writes it (a dialogue). */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import nodemailer from 'nodemailer';
import { Dialogue } from './smtp-dialogue.ts';
import { TEST_CA } from './smtp.ts';

/** For the service: two ports, one of each kind, with the certificate of mx.test. */
export const SUBMISSION_ENV = {
  LETTERHAUS_SUBMISSION_PORTS: '0,0/tls',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
  LETTERHAUS_TLS_CERT: fileURLToPath(new URL('certs/trusted.pem', import.meta.url)),
  LETTERHAUS_TLS_KEY: fileURLToPath(new URL('certs/trusted.pem', import.meta.url)),
};

export type Submitter = { port: number; key: string; user?: string; tls?: boolean };

/** As an application is set up. */
export function transportTo({ port, key, user = 'letterhaus', tls = false }: Submitter) {
  return nodemailer.createTransport({
    host: '127.0.0.1',
    port,
    secure: tls,
    requireTLS: true,
    pool: true,
    maxConnections: 1,
    auth: { user, pass: key },
    tls: { ca: TEST_CA, servername: 'mx.test' },
  });
}

/** The id in `250 2.0.0 Ok: queued as <id>`. */
export function idIn(reply: string | null): string {
  const [, id] =
    /^(?:250-2\.0\.0 Accepted before\n)?250 2\.0\.0 Ok: queued as ([0-9a-f-]{36})$/.exec(
      reply ?? '',
    ) ?? [];
  assert.ok(id, `no id in ${JSON.stringify(reply)}`);
  return id;
}

/** A session that is logged in. */
export async function loggedIn({ port, key, user = 'letterhaus' }: Submitter): Promise<Dialogue> {
  const dialogue = await Dialogue.greeted(port);
  await dialogue.startTls();
  await dialogue.ask('EHLO app.test');
  const reply = await logIn(dialogue, user, key);
  assert.match(reply ?? '', /^235 /);
  return dialogue;
}

export function logIn(dialogue: Dialogue, user: string, pass: string): Promise<string | null> {
  return dialogue.ask(`AUTH PLAIN ${Buffer.from(`\0${user}\0${pass}`).toString('base64')}`);
}

/** @returns the reply to the dot, or to what was refused before it */
export async function submit(
  dialogue: Dialogue,
  { to, lines }: { to: readonly string[]; lines: readonly string[] },
): Promise<string | null> {
  let reply = await dialogue.ask('MAIL FROM:<ignored@elsewhere.test> SMTPUTF8');
  for (const address of to) {
    if (reply?.startsWith('250') === true) reply = await dialogue.ask(`RCPT TO:<${address}>`);
  }
  if (reply?.startsWith('250') === true) reply = await dialogue.ask('DATA');
  if (reply?.startsWith('354') !== true) return reply;
  const stuffed = lines.map((line) => (line.startsWith('.') ? `.${line}` : line));
  dialogue.send(Buffer.from(`${stuffed.join('\r\n')}\r\n.\r\n`));
  return dialogue.hear();
}
