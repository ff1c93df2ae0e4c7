/**
 * Asks the authority when a certificate should be renewed (ARI, RFC 9773), four times a day. So a certificate is
 * replaced before the authority revokes it, and the renewals of many installations are spread. An authority that does
 * not respond changes nothing: the certificate is renewed when a third of its life is left.
 */
import { createHash } from 'node:crypto';
import { HOUR_MS } from '../lib/units.ts';
import type { RenewalWindow } from '../net/acme/acme-client.ts';
import { AcmeError } from '../net/acme/acme-error.ts';
import { renewalId } from '../net/acme/renewal-id.ts';
import { readChain } from '../net/tls/chain.ts';
import * as store from './certificate-store.ts';
import { openClient, type OrderContext, renewalOf, REST_MS } from './order.ts';

const LOOK_EVERY_MS = 6 * HOUR_MS;
const LOOK_MIN_MS = HOUR_MS / 60;
const LOOK_MAX_MS = 24 * HOUR_MS;
const REQUEST_TIMEOUT_MS = 60_000;

/** Looks once if it is due. One node looks at a time. */
export async function lookAtRenewal(context: OrderContext, name: string): Promise<void> {
  const { db, log } = context;
  const chain = await store.claimRenewalLook(db, { name, nextMs: LOOK_EVERY_MS });
  const id = chain === null ? null : renewalId(readChain(chain)[0]);
  if (chain === null || id === null) return;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
  try {
    const window = await (await openClient(context, signal)).readRenewalWindow(id);
    if (window === null) return;
    const wanted = timeIn(window, id);
    const renewAt = new Date(Math.min(wanted.getTime(), renewalOf(chain).getTime()));
    const waitMs = window.retryAfterMs ?? LOOK_EVERY_MS;
    const nextMs = Math.min(Math.max(waitMs, LOOK_MIN_MS), LOOK_MAX_MS);
    await store.noteRenewal(db, { name, chain }, { renewAt, nextMs, restMs: REST_MS });
  } catch (error) {
    if (!(error instanceof AcmeError)) throw error;
    log.info(
      { name, acme_error: error.type },
      `the authority gave no renewal time for ${name}: ${error.message}`,
    );
  }
}

/** Each certificate has its time in the window, the same at every look and on every node. */
export function timeIn({ fromMs, untilMs }: RenewalWindow, id: string): Date {
  const share = createHash('sha256').update(id).digest().readUInt32BE() / 2 ** 32;
  return new Date(fromMs + share * (untilMs - fromMs));
}
