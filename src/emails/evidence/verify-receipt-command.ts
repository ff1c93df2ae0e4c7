/**
 * `letterhaus verify-receipt`: verifies a case file. It needs no service: the public key is in the file.
 *
 * It compares that key with --key, or with the keys of the service that this command would use. Without either it
 * warns, because anybody can sign a file with their own key.
 */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { ReceiptKey } from '../../../sdk/src/api.ts';
import {
  type Cli,
  type CommandResult,
  type Failure,
  isFailure,
  readContent,
  runnable,
  usageFailure,
} from '../../cli/command.ts';
import { connect } from '../../cli/connection.ts';
import { facts, shortTime } from '../../cli/table.ts';
import { fingerprintOf, isPublicKey, type Signer, verifyCaseFile } from './signed-file.ts';

/** Milliseconds for the key of the service. The file is verified without it. */
const KEY_WITHIN_MS = 5_000;

type Options = { key?: string };
/** Fingerprints of an installation and what names it; null when there was nothing to compare with. */
type KnownKeys = { fingerprints: readonly string[]; of: string } | null;

export function describeVerifyReceipt(verify: Command, cli: Cli): void {
  runnable(verify, cli, {
    examples: [
      'verify-receipt case.json',
      'verify-receipt case.json --key SHA256:If5qexRkFaL8QbH9cHrfWd6wwvo8xbVszJpVWcKZBBo',
    ],
    notes:
      'Works without a service. The public key is in the file, so compare its fingerprint with the one that the ' +
      'installation states: letterhaus receipt-key, or GET /v1/receipt-key. The exit code is 1 for a changed file.',
    run: verifyReceipt,
  })
    .argument('<file>', 'case file; - is standard input')
    .option('--key <key>', 'fingerprint or public key of the installation, or a file with its key');
}

async function verifyReceipt(cli: Cli, { key }: Options, [file]: [string]): Promise<CommandResult> {
  const expected = key === undefined ? null : keysOfOption(key);
  if (expected !== null && isFailure(expected)) return expected;
  const text = await readContent(file).catch((error: Error) =>
    usageFailure(`${file} cannot be read: ${error.message}.`),
  );
  if (typeof text !== 'string') return text as Failure;
  const verified = verifyCaseFile(text);
  if (verified.kind !== 'valid') {
    const code = verified.kind === 'changed' ? 'receipt_changed' : 'no_receipt';
    return { failed: verified.message, code, exitCode: 1 };
  }
  const { signer, file: content } = verified;
  const known = expected ?? (await keysOfService(cli));
  const isKnown = known?.fingerprints.includes(signer.fingerprint) ?? null;
  if (expected !== null && isKnown === false) return otherKey(signer);
  if (isKnown !== true) cli.err(`letterhaus: ${warning(signer, known)}\n`);
  return success(content, { signer, known, isKnown });
}

function otherKey({ fingerprint }: Signer): Failure {
  return {
    failed: `The file is complete, but another key signed it: ${fingerprint}. Do not trust it.`,
    code: 'receipt_of_another_key',
    exitCode: 1,
  };
}

/** Accepts a fingerprint, a public key, or a file with either or with the response of GET /v1/receipt-key. */
function keysOfOption(option: string): NonNullable<KnownKeys> | Failure {
  const of = 'the key of --key';
  const text = isKeyText(option) ? option : contentOf(option);
  if (text !== null && isKeyText(text)) {
    return { fingerprints: [text.startsWith('SHA256:') ? text : fingerprintOf(text)], of };
  }
  const fingerprints = text === null ? [] : fingerprintsIn(text);
  if (fingerprints.length > 0) return { fingerprints, of };
  return usageFailure(
    '--key is neither a fingerprint (SHA256:…) nor a public key, nor a file with one. ' +
      '`letterhaus receipt-key` prints both.',
  );
}

function isKeyText(text: string): boolean {
  return /^SHA256:[A-Za-z0-9+/]{43}$/.test(text) || isPublicKey(text);
}

function contentOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return null;
  }
}

function fingerprintsIn(json: string): string[] {
  try {
    return fingerprintsOf(JSON.parse(json) as ReceiptKey);
  } catch {
    return [];
  }
}

function fingerprintsOf({ public_key: current, retired }: ReceiptKey): string[] {
  return [current, ...retired.map((key) => key.public_key)].map(fingerprintOf);
}

/** Asks the service of this machine, or the one of `letterhaus login`; null when none answers. */
async function keysOfService(cli: Cli): Promise<KnownKeys> {
  const connection = connect(cli, {});
  if (isFailure(connection)) return null;
  try {
    const signal = AbortSignal.timeout(KEY_WITHIN_MS);
    const response = await connection.send('/v1/receipt-key', { signal });
    if (!response.ok) return null;
    const fingerprints = fingerprintsOf((await response.json()) as ReceiptKey);
    return { fingerprints, of: `the service at ${connection.origin}` };
  } catch {
    return null;
  }
}

function warning({ fingerprint }: Signer, known: KnownKeys): string {
  const compare = `Compare ${fingerprint} with the fingerprint that the installation states.`;
  return known === null
    ? `The key in the file was not compared with that of an installation. ${compare}`
    : `The key in the file is not one of ${known.of}. ${compare}`;
}

type Verified = { signer: Signer; known: KnownKeys; isKnown: boolean | null };

function success(
  content: Record<string, unknown>,
  { signer, known, isKnown }: Verified,
): CommandResult {
  const { email, made_at: madeAt, installation } = content as Content;
  return {
    data: {
      object: 'receipt_verification',
      valid: true,
      fingerprint: signer.fingerprint,
      known_key: isKnown,
      email_id: email?.id ?? null,
      made_at: madeAt ?? null,
    },
    text: facts([
      ['signature', 'valid: the file has not changed since it was signed'],
      ['signed by', signer.fingerprint],
      ['key', keyText(known, isKnown)],
      ['installation', installation?.url ?? installation?.hostname ?? '-'],
      ['made', madeAt === undefined ? '-' : `${shortTime(madeAt)} UTC`],
      ['email', email?.id ?? '-'],
      ['subject', email?.subject ?? '-'],
      ['status', email?.status ?? '-'],
    ]),
  };
}

/** The parts of a signed file that are printed. */
type Content = {
  made_at?: string;
  installation?: { url: string | null; hostname: string };
  email?: { id: string; subject: string; status: string };
};

function keyText(known: KnownKeys, isKnown: boolean | null): string {
  if (known === null || isKnown === null) return 'not compared';
  return isKnown ? `compared with ${known.of}` : `not one of ${known.of}`;
}
