/**
 * One address of a mail server, with the TLS rule for sessions to it. Open sessions are kept by the key of their
 * target.
 */
import type { SmtpTlsMode } from '../../net/smtp/client.ts';
import type { DaneExpectation } from '../../net/tls/dane.ts';

export type Target = {
  provider: string;
  /** MX host name. */
  host: string;
  address: string;
  tls: SmtpTlsMode;
  reducedHello?: boolean;
  /**
   * TLS has worked with this host in the last 3 days, so the attempt requires it although the mode is opportunistic.
   */
  expectsTls?: boolean;
  /** Set with the mode `dane`. `daneKey` separates sessions that were opened under different TLSA records. */
  dane?: DaneExpectation;
  daneKey?: string;
};

/**
 * Returns the key that a session is kept by. It has the TLS rule, because a message that needs a stronger rule must
 * not use the session.
 */
export function keyOf({ host, address, tls, daneKey = '' }: Target): string {
  return `${host} ${address} ${tls} ${daneKey}`;
}
