/** What a server says it can do, from its answer to EHLO (RFC 5321 §4.1.1.1). */
import type { SmtpReply } from '../../mail/replies/smtp-reply.ts';

export type SmtpExtensions = {
  pipelining: boolean;
  startTls: boolean;
  smtpUtf8: boolean;
  /** 8BITMIME (RFC 6152). */
  eightBitMime: boolean;
  /** `sizeBytesMax` 0: the server takes SIZE and names no limit (RFC 1870). */
  size: { sizeBytesMax: number } | null;
  authMechanisms: readonly string[];
};

/** A server that only knows HELO. */
export const NO_EXTENSIONS: SmtpExtensions = {
  pipelining: false,
  startTls: false,
  smtpUtf8: false,
  eightBitMime: false,
  size: null,
  authMechanisms: [],
};

export function extensionsOf(reply: SmtpReply): SmtpExtensions {
  const offered = new Map<string, readonly string[]>();
  // The first line is a greeting; `AUTH=LOGIN` is how some servers spelled it before RFC 2554.
  for (const line of reply.message.toUpperCase().split('\n').slice(1)) {
    const [keyword = '', ...parameters] = line.split(/[ =]+/);
    offered.set(keyword, [...(offered.get(keyword) ?? []), ...parameters]);
  }
  const size = offered.get('SIZE');
  return {
    pipelining: offered.has('PIPELINING'),
    startTls: offered.has('STARTTLS'),
    smtpUtf8: offered.has('SMTPUTF8'),
    eightBitMime: offered.has('8BITMIME'),
    size: size === undefined ? null : { sizeBytesMax: sizeOf(size[0]) },
    authMechanisms: offered.get('AUTH') ?? [],
  };
}

function sizeOf(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}
