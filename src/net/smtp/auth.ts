/**
 * Logging in at a relay: PLAIN (RFC 4616) or the older LOGIN. The secret goes into no transcript.
 */
import { BlockList, isIPv6 } from 'node:net';
import { say, type Session } from './session.ts';
import { type Heard, isFailure } from './wire.ts';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether a password may be sent in plain text: only inside of this machine. */
export function isLoopback(address: string): boolean {
  return loopback.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

export type Credentials = { user: string; pass: string };

/** The relay's last word (235 is a yes), or null when it offers no way to log in that we know. */
export async function logIn(session: Session, credentials: Credentials): Promise<Heard | null> {
  const offered = session.extensions.authMechanisms;
  if (offered.includes('PLAIN')) return plain(session, credentials);
  if (offered.includes('LOGIN')) return login(session, credentials);
  return null;
}

function plain(session: Session, { user, pass }: Credentials): Promise<Heard> {
  const line = `AUTH PLAIN ${base64(`\0${user}\0${pass}`)}`;
  return say(session, 'auth', { line, shown: 'AUTH PLAIN ***' });
}

async function login(session: Session, { user, pass }: Credentials): Promise<Heard> {
  let heard = await say(session, 'auth', { line: 'AUTH LOGIN' });
  for (const secret of [user, pass]) {
    if (isFailure(heard) || heard.code !== 334) return heard;
    heard = await say(session, 'auth', { line: base64(secret), shown: '***' });
  }
  return heard;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
