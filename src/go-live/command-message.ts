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

type Message = { id: string; to: string };
type Stage = { stage: string; detail: string };

export async function sendFirstMessage(goLive: GoLive): Promise<Step> {
  const { to } = goLive.options;
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
  return followMessage(goLive, { id, to });
}

/** Prints each stage that the message reaches, until it arrives or fails, or the time of `--wait` has passed. */
async function followMessage(goLive: GoLive, message: Message): Promise<Step> {
  const { cli, client, options } = goLive;
  const endMs = cli.world.monotonicMs() + options.wait;
  const journey = new Map<string, string>();
  for (;;) {
    const diagnosis = await client.emails.diagnose(message.id);
    printNewStages(goLive, journey, stagesOf(diagnosis));
    const { status } = diagnosis;
    const hasEnded = ARRIVED.includes(status) || FAILED.includes(status);
    if (hasEnded || cli.world.monotonicMs() > endMs) {
      return { ...describeEnd(goLive, message, diagnosis), data: dataOf(diagnosis, journey) };
    }
    await pause(POLL_MS);
  }
}

function printNewStages(
  { cli, options }: GoLive,
  journey: Map<string, string>,
  stages: readonly Stage[],
): void {
  for (const { stage, detail } of stages) {
    if (journey.get(stage) === detail) continue;
    journey.set(stage, detail);
    // With --json, stdout is for the report.
    (options.json ? cli.err : cli.out)(`    ${stage}: ${detail}\n`);
  }
}

function describeEnd({ name }: GoLive, { to }: Message, { status, recipients }: Diagnosis): Step {
  if (ARRIVED.includes(status)) {
    return { step, state: 'done', message: `The message of ${name} reached ${to}.` };
  }
  const { what_happened = '', next_step = '' } = recipients[0] ?? {};
  const message = `The message to ${to} is ${status}. ${what_happened} ${next_step}`;
  return { step, state: 'todo', message: printable(message).trim() };
}

function dataOf({ id, status }: Diagnosis, journey: ReadonlyMap<string, string>) {
  return {
    email_id: id,
    status,
    journey: [...journey].map(([stage, detail]) => ({ stage, detail })),
  };
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
