/**
 * The step that sends the first message and shows its journey: accepted, mail server, connection, TLS, reply, outcome.
 *
 * A repeated run follows the message that an earlier one sent. It sends another one only when that has failed.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Diagnosis, EmailStatus } from '../../sdk/src/api.ts';
import { LetterhausError } from '../../sdk/src/errors.ts';
import { printable } from '../cli/table.ts';
import type { GoLive, Step } from './command-step.ts';

const step = 'first_message';
const TAG = { name: 'go-live', value: 'first-message' };
const FAILED: readonly EmailStatus[] = ['bounced', 'failed', 'suppressed', 'canceled'];
const ARRIVED: readonly EmailStatus[] = ['delivered', 'sent', 'complained'];
const POLL_MS = 500;

type Stage = { stage: string; detail: string };

export async function sendFirstMessage(goLive: GoLive): Promise<Step> {
  const { cli, name, options } = goLive;
  const { to } = options;
  if (to === undefined) {
    const message = `No message was sent. Run the command with --to and an address of yours.`;
    return { step, state: 'skipped', message };
  }
  let id: string;
  try {
    id = await findOrSend(goLive, to);
  } catch (error) {
    if (!(error instanceof LetterhausError) || error.status >= 500) throw error;
    return { step, state: 'todo', message: `The message was refused: ${error.message}` };
  }
  const endMs = cli.world.monotonicMs() + options.wait;
  const journey = new Map<string, string>();
  for (;;) {
    const diagnosis = await goLive.client.emails.diagnose(id);
    for (const { stage, detail } of stagesOf(diagnosis)) {
      if (journey.get(stage) === detail) continue;
      journey.set(stage, detail);
      // With --json, stdout is for the report.
      (options.json ? cli.err : cli.out)(`    ${stage}: ${detail}\n`);
    }
    const recipient = diagnosis.recipients[0];
    const { status } = diagnosis;
    const data = {
      email_id: id,
      status,
      journey: [...journey].map(([stage, detail]) => ({ stage, detail })),
    };
    if (ARRIVED.includes(status)) {
      const message = `The message of ${name} reached ${to}.`;
      return { step, state: 'done', message, data };
    }
    if (FAILED.includes(status) || cli.world.monotonicMs() > endMs) {
      const message = `The message to ${to} is ${status}. ${recipient?.what_happened ?? ''} ${recipient?.next_step ?? ''}`;
      return { step, state: 'todo', message: printable(message).trim(), data };
    }
    await pause(POLL_MS);
  }
}

/** Two runs at once send one message, because they use the same idempotency key. */
async function findOrSend({ client, name, options }: GoLive, to: string): Promise<string> {
  let earlier = 0;
  for await (const email of client.emails.list({ domain: name, to, tag: TAG.name })) {
    if (!FAILED.includes(email.status)) return email.id;
    earlier += 1;
  }
  const email = {
    from: options.from ?? `postmaster@${name}`,
    to,
    subject: `${name} sends with Letterhaus`,
    text: `This is the first message of ${name}. Letterhaus signed it and delivered it to your mail server.\n`,
    tags: [TAG],
  };
  const idempotencyKey = `go-live:${name}:${to}:${earlier}`;
  return (await client.emails.send(email, { idempotencyKey })).id;
}

function stagesOf({ id, created_at, sender, recipients }: Diagnosis): Stage[] {
  const stages: Stage[] = [{ stage: 'accepted', detail: `${created_at}, email ${id}` }];
  const add = (stage: string, detail: string | null | undefined) => {
    if (detail) stages.push({ stage, detail: printable(detail) });
  };
  const [recipient] = recipients;
  if (recipient === undefined) return stages;
  const { route, last_attempt, status, held_by } = recipient;
  add('queued', held_by && `waits for ${held_by.limit}: ${held_by.message}`);
  add('mail server', route?.mx[0] && `${route.mx[0].host} (preference ${route.mx[0].preference})`);
  const smtp = last_attempt?.smtp;
  add('connected', smtp?.mx && `${smtp.mx}${smtp.ip === null ? '' : ` [${smtp.ip}]`}`);
  const tls = smtp?.tls;
  const trust = tls?.verified ? 'valid certificate' : (tls?.problem ?? 'certificate not valid');
  if (smtp?.mx) add('TLS', tls ? `${tls.version}, ${trust}` : 'none');
  add('reply', smtp && `${smtp.code ?? ''} ${smtp.enhanced_code ?? ''} ${smtp.message}`);
  const authentication = sender.authentication;
  if (authentication !== null) {
    const { dkim, spf, dmarc } = authentication;
    const keys = [...new Set(dkim.map(({ verdict }) => verdict))].join(', ');
    add('authentication', `DKIM ${keys}, SPF ${spf.verdict}, DMARC ${dmarc.verdict}`);
  }
  add('status', status);
  return stages;
}
