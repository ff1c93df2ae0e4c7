/**
 * The dialogue for one message: MAIL, RCPT, DATA, the message, the final dot.
 *
 * The result of a lost connection depends on the dot: only after it may the message have been delivered (`inDoubt`).
 * The dot is written only while `mayProceed` returns true, so a worker that lost its lease sends nothing.
 *
 * With PIPELINING the three commands are one write (RFC 2920), and a message takes two round trips. A server may
 * then accept DATA although it refused the recipient. A dot alone completes that DATA, which sends nothing to
 * anyone. If another message for the same server waits, its envelope is written with the dot of this one, which
 * saves another round trip.
 */
import { isAscii } from 'node:buffer';
import { failpoint } from '../../lib/failpoint.ts';
import type { SmtpReply } from '../../mail/replies/smtp-reply.ts';
import {
  isWritablePath,
  readReply,
  pathCommand,
  sendCommand,
  type PickNext,
  type Session,
  type SmtpExtensions,
  type SmtpFailure,
  type Transaction,
  type TransactionResult,
} from './client-session.ts';
import { type ReplyOrFailure, isFailure } from './client-wire.ts';

type DialogueEnd =
  | { kind: 'replied'; phase: MessagePhase; reply: SmtpReply; hasDsn?: true }
  | (Omit<SmtpFailure, 'transcript'> & { inDoubt: boolean });

type MessagePhase = 'mail' | 'rcpt' | 'data_command' | 'data';
type Step = { phase: 'mail' | 'rcpt' | 'data_command'; line: string };

/** MAIL, RCPT and DATA. */
const ENVELOPE_REPLIES = 3;
const LF = 10;
const DOT = 46;
const LF_DOT = Buffer.from('\n.');
const DOT_LINE = Buffer.from('.\r\n');
const CRLF_AND_DOT_LINE = Buffer.from('\r\n.\r\n');
const WITHOUT_SMTPUTF8 = 'The server does not support SMTPUTF8, which';
/**
 * Up to this size, a message and its dot are one write. The send buffer is empty after the 354 and has space for
 * this much, so `mayProceed` before the write is as good as before the dot.
 */
const ONE_WRITE_BYTES_MAX = 32 * 1024;
const CHUNK_BYTES = 64 * 1024;
/** A server that buffers pipelined commands replies to them directly after the dot. */
const ANNOUNCED_TIMEOUT_MS = 30_000;

/** @param pickNext null: no message is announced */
export async function runTransaction(
  session: Session,
  transaction: Transaction,
  pickNext: PickNext | null,
): Promise<TransactionResult> {
  const refusal = refuseLocally(session.extensions, transaction);
  if (refusal !== null) return refusal;

  const steps = envelopeSteps(session.extensions, transaction);
  const end =
    (session.extensions.pipelining
      ? await sendPipelined(session, transaction, steps)
      : await sendStepByStep(session, transaction, steps)) ??
    (await sendMessage(session, transaction, pickNext));
  if (end.kind === 'failed') session.transcript.addNote(end.message);
  else if (transaction.dsn && session.extensions.dsn) end.hasDsn = true;
  return Object.assign(end, { transcript: session.transcript.take() });
}

/** Refuses a message that the server's extensions exclude, without a command. */
function refuseLocally(
  extensions: SmtpExtensions,
  { recipient, message, smtpUtf8 }: Transaction,
): TransactionResult | null {
  const sizeBytes = sizeBytesOf(message);
  const sizeBytesMax = extensions.size?.sizeBytesMax ?? 0;
  if (sizeBytesMax > 0 && sizeBytes > sizeBytesMax) {
    const sizes = `${formatCount(sizeBytes)} bytes, the server accepts ${formatCount(sizeBytesMax)}`;
    return localRefusal('mail', {
      code: 552,
      enhancedCode: '5.3.4',
      message: `The message has ${sizes}.`,
    });
  }
  if (smtpUtf8 && !extensions.smtpUtf8) return refuseWithoutSmtpUtf8(recipient);
  if (!isWritablePath(recipient, smtpUtf8)) {
    const why = 'The address has characters that SMTP cannot carry.';
    return localRefusal('rcpt', { code: 553, enhancedCode: '5.1.3', message: why });
  }
  return null;
}

/** Codes of RFC 6531 §3.5 for an address and for a header. */
function refuseWithoutSmtpUtf8(recipient: string): TransactionResult {
  const [code, enhancedCode, needing] = isAscii(Buffer.from(recipient))
    ? [550, '5.6.9', 'an address or another part of the header']
    : [553, '5.6.7', 'the address of the recipient'];
  return localRefusal('mail', {
    code,
    enhancedCode,
    message: `${WITHOUT_SMTPUTF8} ${needing} needs.`,
  });
}

/**
 * Returns whether this client refused to send because the server lacks SMTPUTF8. Another server, or another form of
 * the message, may succeed.
 */
export function lacksSmtpUtf8(result: { kind: string; reply?: SmtpReply; local?: true }): boolean {
  return result.local === true && /^5\.6\.[79]$/.test(result.reply?.enhancedCode ?? '');
}

function localRefusal(phase: 'mail' | 'rcpt', reply: SmtpReply): TransactionResult {
  const transcript = [`(not sent: ${reply.code} ${reply.enhancedCode} ${reply.message})`];
  return { kind: 'replied', phase, reply, transcript, local: true };
}

function envelopeSteps(extensions: SmtpExtensions, transaction: Transaction): Step[] {
  const { envelopeFrom, recipient, message, smtpUtf8, is8Bit = false } = transaction;
  const size = extensions.size === null ? '' : ` SIZE=${sizeBytesOf(message)}`;
  const body = is8Bit && extensions.eightBitMime ? ' BODY=8BITMIME' : '';
  const utf8 = smtpUtf8 ? ' SMTPUTF8' : '';
  const dsn = extensions.dsn ? transaction.dsn : undefined;
  const mail = pathCommand('MAIL FROM', envelopeFrom, smtpUtf8) + size + body + utf8;
  const rcpt = pathCommand('RCPT TO', recipient, smtpUtf8);
  return [
    { phase: 'mail', line: dsn === undefined ? mail : mail + dsn.mail },
    { phase: 'rcpt', line: dsn === undefined ? rcpt : rcpt + dsn.rcpt },
    { phase: 'data_command', line: 'DATA' },
  ];
}

/** Sends all commands in one write. Returns null when the server waits for the message. */
async function sendPipelined(
  session: Session,
  transaction: Transaction,
  steps: readonly Step[],
): Promise<DialogueEnd | null> {
  const { wire, transcript, timeouts } = session;
  const isAnnounced = session.announced === transaction;
  session.announced = null;
  if (!isAnnounced) {
    if (!(await transaction.mayProceed('data_command')))
      return withholdMessage(session, 'data_command');
    const lines = steps.map((step) => step.line);
    if (session.needsReset) lines.unshift('RSET');
    wire.write([joinLines(lines)], lines.length);
    if (session.needsReset) {
      transcript.addCommand('RSET');
      if (!confirmReset(session, await readReply(session, 'rset')))
        return connectionFailure(session, 'rset');
    }
  }

  session.needsReset = true;
  let end: DialogueEnd | null = null;
  let isDataAccepted = false;
  for (const { phase, line } of steps) {
    transcript.addCommand(line);
    const isFirst = isAnnounced && phase === 'mail';
    const timeoutMs = isFirst ? Math.min(timeouts.mail, ANNOUNCED_TIMEOUT_MS) : timeouts[phase];
    const problem = checkReply(session, phase, await readReply(session, phase, timeoutMs));
    isDataAccepted = phase === 'data_command' && problem === null;
    end ??= problem;
  }
  if (end !== null && isDataAccepted) await completeEmptyData(session);
  return end;
}

/**
 * Sends one command after the other, for servers without PIPELINING. Returns null when the server waits for the
 * message.
 */
async function sendStepByStep(
  session: Session,
  transaction: Transaction,
  steps: readonly Step[],
): Promise<DialogueEnd | null> {
  if (session.needsReset) {
    const reply = await sendCommand(session, 'rset', { line: 'RSET' });
    if (!confirmReset(session, reply)) return connectionFailure(session, 'rset');
  }
  session.needsReset = true;
  for (const { phase, line } of steps) {
    if (phase === 'data_command' && !(await transaction.mayProceed('data_command'))) {
      return withholdMessage(session, phase);
    }
    const end = checkReply(session, phase, await sendCommand(session, phase, { line }));
    if (end !== null) return end;
    if (phase === 'rcpt') failpoint('smtp_after_rcpt');
  }
  return null;
}

/** Returns whether the server confirmed RSET. Any other reply closes the connection. */
function confirmReset(session: Session, reply: ReplyOrFailure): boolean {
  if (isFailure(reply)) return false;
  if (reply.code === 250) return true;
  session.wire.fail('garbage', `The server replied ${reply.code} to RSET.`);
  return false;
}

/** Completes a DATA that was accepted although the recipient was refused. */
async function completeEmptyData(session: Session): Promise<void> {
  session.transcript.addCommand('.');
  session.wire.write(['.\r\n'], 1);
  // A short timeout: the outcome is known, and only the reuse of the connection depends on it.
  await readReply(session, 'rset');
}

async function sendMessage(
  session: Session,
  transaction: Transaction,
  pickNext: PickNext | null,
): Promise<DialogueEnd> {
  failpoint('smtp_before_body');
  const pieces = stuffDots(transaction.message);
  const dot = finalDot(pieces);
  const isOneWrite = sizeBytesOf(pieces) <= ONE_WRITE_BYTES_MAX;
  session.transcript.addCommand(`(${formatCount(sizeBytesOf(transaction.message))} bytes)`);
  if (!isOneWrite) {
    const end = await writeChunks(session, pieces);
    if (end !== null) return end;
  }
  if (!(await transaction.mayProceed('data'))) return withholdMessage(session, 'body');
  if (session.wire.failure !== null) return connectionFailure(session, 'body');

  failpoint('smtp_before_dot');
  const tail = [dot, ...announceNext(session, pickNext)];
  const replies = session.announced === null ? 0 : ENVELOPE_REPLIES;
  if (isOneWrite) session.wire.write([...pieces, ...tail], 1 + replies);
  else session.wire.write(tail, replies);
  failpoint('smtp_after_dot');
  const reply = await readReply(session, 'data');
  failpoint('smtp_after_verdict');
  return endAfterDot(session, reply);
}

/** Returns the envelope of the next message, to be written with the dot; empty without one. */
function announceNext(session: Session, pickNext: PickNext | null): string[] {
  const { extensions } = session;
  if (pickNext === null || !extensions.pipelining) return [];
  session.announced = pickNext(
    (next) => refuseLocally(extensions, next) === null && next.mayProceed('data_command') === true,
  );
  if (session.announced === null) return [];
  return [joinLines(envelopeSteps(extensions, session.announced).map((step) => step.line))];
}

function joinLines(lines: readonly string[]): string {
  return `${lines.join('\r\n')}\r\n`;
}

/** Writes all but the dot, chunk by chunk. Returns null when it is ready for the dot. */
async function writeChunks(
  session: Session,
  pieces: readonly Buffer[],
): Promise<DialogueEnd | null> {
  const { wire, timeouts } = session;
  wire.expectReply();
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; from += CHUNK_BYTES) {
      await wire.writeChunk(piece.subarray(from, from + CHUNK_BYTES), timeouts.body);
      failpoint('smtp_mid_body');
      if (wire.hasReply) return endEarly(session, await readReply(session, 'data'));
      if (wire.failure !== null) return connectionFailure(session, 'body');
    }
  }
  return null;
}

/** Ends the dialogue after a reply before the end of the message: an error counts, and the connection closes. */
function endEarly(session: Session, reply: ReplyOrFailure): DialogueEnd {
  const problem = checkReply(session, 'data', reply);
  session.wire.fail('garbage', 'The server replied before the end of the message.');
  return problem?.kind === 'replied' ? problem : connectionFailure(session, 'body');
}

function endAfterDot(session: Session, reply: ReplyOrFailure): DialogueEnd {
  const problem = checkReply(session, 'data', reply);
  if (problem?.kind === 'failed') return { ...problem, inDoubt: true };
  session.needsReset = false;
  return problem ?? { kind: 'replied', phase: 'data', reply: reply as SmtpReply };
}

/**
 * Returns null when the dialogue continues after this reply, else its end. A reply that is not valid in the phase
 * closes the connection.
 */
function checkReply(
  session: Session,
  phase: MessagePhase,
  reply: ReplyOrFailure,
): DialogueEnd | null {
  if (isFailure(reply)) return connectionFailure(session, phase);
  if (reply.code >= 400) return { kind: 'replied', phase, reply };
  if (phase === 'data_command' ? reply.code === 354 : reply.code < 300) return null;
  session.wire.fail('garbage', `The server replied ${reply.code}, which is not valid here.`);
  return connectionFailure(session, phase);
}

/** Closes the connection without the dot, so that the server discards the message. */
function withholdMessage(session: Session, phase: 'data_command' | 'body'): DialogueEnd {
  session.wire.fail('withheld', 'The message was not sent: this worker may no longer send it.');
  return connectionFailure(session, phase);
}

function connectionFailure(session: Session, phase: SmtpFailure['phase']): DialogueEnd {
  const { cause, message } = session.wire.failure ?? {
    cause: 'closed',
    message: 'The connection was lost.',
  };
  return { kind: 'failed', phase, cause, message, inDoubt: false };
}

function sizeBytesOf(message: Buffer | readonly Buffer[]): number {
  if (Buffer.isBuffer(message)) return message.length;
  let sizeBytes = 0;
  for (const piece of message) sizeBytes += piece.length;
  return sizeBytes;
}

/** Formats 12345 as `12,345`, a thousand times faster than toLocaleString. */
function formatCount(count: number): string {
  return String(count).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}

/**
 * Returns the pieces after dot-stuffing (RFC 5321 §4.5.2). The stored and signed bytes do not change. A message that
 * needs no stuffing, which most do not, is not copied. A dot after a bare LF is stuffed, too: composed messages have
 * none, but a lenient server must not see an end within a message.
 */
export function stuffDots(message: Buffer | readonly Buffer[]): readonly Buffer[] {
  const pieces = Buffer.isBuffer(message) ? [message] : message;
  if (!needsStuffing(pieces)) return pieces;
  return [stuffPiece(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))];
}

/** Returns the dot on a line of its own, which ends the data. */
export function finalDot(pieces: readonly Buffer[]): Buffer {
  const last = pieces.findLast((piece) => piece.length > 0);
  if (last === undefined) return DOT_LINE;
  // If the final CRLF is split over two pieces, this adds an empty line. No composer does that.
  return last.length >= 2 && last.at(-1) === LF && last.at(-2) === 13
    ? DOT_LINE
    : CRLF_AND_DOT_LINE;
}

function needsStuffing(pieces: readonly Buffer[]): boolean {
  let before = LF;
  for (const piece of pieces) {
    if (piece.length === 0) continue;
    if (before === LF && piece[0] === DOT) return true;
    if (piece.includes(LF_DOT)) return true;
    before = piece[piece.length - 1]!;
  }
  return false;
}

function stuffPiece(message: Buffer): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  if (message[0] === DOT) parts.push(DOT_LINE.subarray(0, 1));
  for (let at = message.indexOf(LF_DOT); at !== -1; at = message.indexOf(LF_DOT, at + 1)) {
    parts.push(message.subarray(from, at + 2));
    // The next piece starts with the same dot, so it is written twice.
    from = at + 1;
  }
  parts.push(message.subarray(from));
  return Buffer.concat(parts);
}
