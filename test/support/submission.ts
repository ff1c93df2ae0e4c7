/** Submits mail by SMTP: like applications (nodemailer), and as the test writes it (a dialogue). */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import nodemailer from 'nodemailer';
import { Dialogue } from './smtp-dialogue.ts';
import { TEST_CA } from './smtp.ts';

/** Environment of a service with two submission ports, one of each kind, and the certificate of mx.test. */
export const SUBMISSION_ENV = {
  LETTERHAUS_SUBMISSION_PORTS: '0,0/tls',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
  LETTERHAUS_TLS_CERT: fileURLToPath(new URL('certs/trusted.pem', import.meta.url)),
  LETTERHAUS_TLS_KEY: fileURLToPath(new URL('certs/trusted.pem', import.meta.url)),
};

export type Submitter = { port: number; key: string; user?: string; tls?: boolean };

/** Returns a transport with the settings of an application. */
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

/** Returns the id in `250 2.0.0 Ok: queued as <id>`. */
export function idIn(reply: string | null): string {
  const [, id] =
    /^(?:250-2\.0\.0 Accepted before\n)?250 2\.0\.0 Ok: queued as ([0-9a-f-]{36})$/.exec(
      reply ?? '',
    ) ?? [];
  assert.ok(id, `no id in ${JSON.stringify(reply)}`);
  return id;
}

/** Opens a session and logs in. */
export async function openLoggedIn({
  port,
  key,
  user = 'letterhaus',
}: Submitter): Promise<Dialogue> {
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

/** @returns the reply to the final dot, or to a command that was refused before */
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
  return dialogue.readReply();
}
