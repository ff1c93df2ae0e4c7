/** The state of a session that its handshake and its transactions share. */
import type { SmtpPhase } from '../../mail/replies/smtp-reply.ts';
import type { SmtpExtensions } from './extensions.ts';
import type { Transcript } from './transcript.ts';
import type { SmtpTimeouts, Transaction } from './types.ts';
import { type Heard, isFailure, type SmtpWire } from './wire.ts';

export type Session = {
  wire: SmtpWire;
  transcript: Transcript;
  timeouts: SmtpTimeouts;
  extensions: SmtpExtensions;
  /** A transaction was left half way: RSET goes before the next one (RFC 5321 §4.1.1.5). */
  needsReset: boolean;
  /** Its envelope went out with the dot of the message before it; its replies come after that one's. */
  announced: Transaction | null;
};

/** One command and its answer; `shown` is what the transcript says in place of a secret. */
export function say(
  session: Session,
  phase: SmtpPhase,
  { line, shown = line }: { line: string; shown?: string },
): Promise<Heard> {
  session.transcript.client(shown);
  session.wire.write([`${line}\r\n`], 1);
  return listen(session, phase);
}

/** The next reply, written into the transcript. */
export async function listen(
  session: Session,
  phase: SmtpPhase,
  timeoutMs = session.timeouts[phase],
): Promise<Heard> {
  const heard = await session.wire.nextReply(timeoutMs);
  if (!isFailure(heard)) session.transcript.server(heard);
  return heard;
}
