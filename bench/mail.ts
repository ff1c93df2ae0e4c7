/**
 * Measures the CPU cost of a message before it is sent: text from html, MIME and signature. It runs on one core and
 * counts CPU time, which depends less on other load than wall time does. Comparable libraries run in the same rounds,
 * under the same load. RSA is measured separately, because at 2 KB it costs more than everything else together.
 *
 *     node bench/mail.ts [--quick]
 *
 * Figures: docs/decisions/0003-own-composer-and-signer.md.
 */
import { createPrivateKey } from 'node:crypto';
import { compile } from 'html-to-text';
import MailComposer from 'nodemailer/lib/mail-composer';
import { parseMailbox } from '../src/mail/address.ts';
import { type ComposedMessage, composeMessage, type Message } from '../src/mail/compose.ts';
import { type DkimKey, generateDkimKeys, relaxedBodyHash, signMessage } from '../src/mail/dkim.ts';
import { makeReturnPath } from '../src/mail/links/return-path.ts';
import { textFromHtml } from '../src/mail/html/text-from-html.ts';
import { htmlOf, SENDER_DOMAIN, SUBJECT } from './parts/mail-text.ts';
import { median, show } from './numbers.ts';
import { Template } from './parts/template.ts';

const IS_QUICK = process.argv.includes('--quick');
const ROUNDS = IS_QUICK ? 1 : 7;
const ROUND_MS = IS_QUICK ? 20 : 150;
const DISTINCT = 500;
/** Calls between two readings of the clock. Asynchronous calls run concurrently. */
const IN_FLIGHT = 32;
const EMAIL_ID = '0193a5b4-1c2d-7e3f-8a4b-5c6d7e8f9a0b';

type Case = { name: string; run: (index: number) => unknown };

/** Messages that differ in the same way as those of the end-to-end benchmark. */
type Sample = { name: string; htmls: string[]; messages: Message[]; composed: ComposedMessage[] };

const libraryText = compile({ wordwrap: false, selectors: [{ selector: 'img', format: 'skip' }] });

await main();

async function main(): Promise<void> {
  const samples = [2_000, 20_000].flatMap((sizeBytes) =>
    (['ASCII', 'UTF-8'] as const).map((letters) => sampleOf(sizeBytes, letters)),
  );
  const keys = await dkimKeys();
  const cases = [
    ...samples.flatMap(casesOf),
    ...signingCases(samples[1]!, keys),
    ...smallCases(keys),
  ];
  const costs = await measureInTurn(cases);
  console.log('| On one core | µs of CPU | per second |\n| --- | ---: | ---: |');
  for (const [name, costsUs] of costs) {
    const costUs = median(costsUs);
    console.log(`| ${name} | ${show(costUs)} | ${show(Math.round(1e6 / costUs))} |`);
  }
}

function sampleOf(sizeBytes: number, letters: 'ASCII' | 'UTF-8'): Sample {
  const html =
    letters === 'UTF-8' ? htmlOf(sizeBytes) : htmlOf(sizeBytes).replace(/[^ -~\n]/g, 'e');
  const template = new Template(html);
  const htmls = Array.from({ length: DISTINCT }, (_, number) => template.fill(number).toString());
  const messages = htmls.map(messageOf);
  return {
    name: `${sizeBytes / 1_000} KB ${letters}`,
    htmls,
    messages,
    composed: messages.map(composeMessage),
  };
}

function messageOf(html: string): Message {
  return {
    emailId: EMAIL_ID,
    from: parseMailbox(`Acme Shop <orders@${SENDER_DOMAIN}>`)!,
    to: [parseMailbox('jo@example.test')!],
    cc: [],
    replyTo: [],
    subject: SUBJECT,
    html,
    text: textFromHtml(html),
    headers: [],
    attachments: [],
    date: new Date(1_795_000_000_000),
    messageId: `<${EMAIL_ID}@${SENDER_DOMAIN}>`,
    unsubscribeUrl: null,
  };
}

function casesOf({ name, htmls, messages, composed }: Sample): Case[] {
  return [
    { name: `text from html, ${name}`, run: (index) => textFromHtml(htmls[index]!) },
    { name: `the same by html-to-text, ${name}`, run: (index) => libraryText(htmls[index]!) },
    { name: `compose, ${name}`, run: (index) => composeMessage(messages[index]!) },
    { name: `the same by nodemailer, ${name}`, run: (index) => nodemailerBuild(messages[index]!) },
    { name: `hash of the body, ${name}`, run: (index) => relaxedBodyHash(composed[index]!.body) },
  ];
}

function nodemailerBuild({ subject, html, text }: Message): Promise<Buffer> {
  const from = `Acme Shop <orders@${SENDER_DOMAIN}>`;
  const options = { from, to: 'jo@example.test', subject, html: html!, text: text! };
  return new MailComposer({ ...options, newline: 'windows' }).compile().build();
}

function smallCases({ secret }: Keys): Case[] {
  return [
    { name: 'an address', run: () => parseMailbox('Jo Doe <jo.doe@mail.example.com>') },
    {
      name: 'a return path',
      run: () => makeReturnPath({ emailId: EMAIL_ID, position: 0, domain: 'send.a.test', secret }),
    },
  ];
}

type Keys = { rsa: DkimKey; ed25519: DkimKey; secret: Buffer };

async function dkimKeys(): Promise<Keys> {
  const generated = await generateDkimKeys();
  const key = (pem: string) => createPrivateKey(pem);
  const common = { domain: SENDER_DOMAIN, selector: 'lh1' };
  return {
    rsa: { ...common, algorithm: 'rsa-sha256', privateKey: key(generated.rsa.privateKey) },
    ed25519: {
      ...common,
      algorithm: 'ed25519-sha256',
      privateKey: key(generated.ed25519.privateKey),
    },
    secret: Buffer.alloc(32, 7),
  };
}

/** Signs 32 messages concurrently, as delivery does. */
function signingCases({ name, composed }: Sample, { rsa, ed25519 }: Keys): Case[] {
  const times = { signedAtS: 1_795_000_000, expiresAtS: 1_795_600_000 };
  const sign = (keys: DkimKey[]) => (index: number) => signMessage(composed[index]!, keys, times);
  return [
    { name: `sign with Ed25519, ${name}`, run: sign([ed25519]) },
    { name: `sign with RSA-2048, ${name}`, run: sign([rsa]) },
    { name: `sign with both, ${name}`, run: sign([rsa, ed25519]) },
  ];
}

/** Runs every case once per round. Returns µs of CPU per call, one figure for each round. */
async function measureInTurn(cases: readonly Case[]): Promise<Map<string, number[]>> {
  const costs = new Map<string, number[]>(cases.map(({ name }) => [name, []]));
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const one of cases) {
      const costUs = await costOf(one);
      // The first round warms up.
      if (round >= 0) costs.get(one.name)!.push(costUs);
    }
  }
  return costs;
}

async function costOf({ run }: Case): Promise<number> {
  const endMs = performance.now() + ROUND_MS;
  const start = process.cpuUsage();
  let count = 0;
  while (performance.now() < endMs) {
    const results = [];
    for (let each = 0; each < IN_FLIGHT; each += 1) results.push(run(count++ % DISTINCT));
    if (results[0] instanceof Promise) await Promise.all(results);
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / count;
}
