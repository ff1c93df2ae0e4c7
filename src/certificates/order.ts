/**
 * One attempt to get a certificate for a name: claim it, order it, store it. The rows are in certificate-store.ts, the
 * protocol in net/acme/order-certificate.ts.
 *
 * - The process dies at any step: the next attempt continues the order, with its URL and its key. The next attempt is
 *   15 minutes later, because the authority may have counted a failure.
 * - Two nodes begin at once: one of them claims the attempt.
 * - The authority refuses: the certificate in use stays, and the reason is stored with what to do. The waits grow from
 *   15 minutes to 12 hours, so that no name is validated more than three times an hour. Let's Encrypt permits five.
 */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { Queryable } from '../database/database.ts';
import type { World } from '../lib/world.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../lib/units.ts';
import { AcmeClient } from '../net/acme/acme-client.ts';
import { AcmeError, remedyOf } from '../net/acme/acme-error.ts';
import { orderCertificate } from '../net/acme/order-certificate.ts';
import { readChain } from '../net/tls/chain.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import { renewalId } from '../net/acme/renewal-id.ts';
import * as store from './certificate-store.ts';
import type { DnsChallenges } from './dns-challenge.ts';

export type OrderContext = {
  db: Queryable;
  secrets: Pick<SecretBox, 'seal' | 'open' | 'opens'>;
  acme: NonNullable<Config['acme']>;
  world: Pick<World, 'newId'>;
  log: Pick<Logger, 'info' | 'warn'>;
  /** Opens the DNS provider, for `acme.challenge` dns-01. */
  openDnsChallenges: () => Promise<DnsChallenges>;
  /** Aborted when the service stops. */
  signal: AbortSignal;
};

const ORDER_TIMEOUT_MS = 5 * MINUTE_MS;
/** After an attempt that may count as a failed validation. */
export const WAITS_MS = [15, 30, 60, 120, 240, 720].map((minutes) => minutes * MINUTE_MS);
/** After an attempt in which the authority did not respond, or refused before it validated. */
const EARLY_WAITS_MS = [1, 2, 4, 8, 15, 30, 60].map((minutes) => minutes * MINUTE_MS);
const RETRY_AFTER_MAX_MS = 7 * DAY_MS;
/** A wrong clock must not order again and again. Let's Encrypt permits five equal certificates in a week. */
export const REST_MS = 36 * HOUR_MS;

/** Makes one attempt if it is due. Never throws for a reason that is the authority's. */
export async function attemptOrder(context: OrderContext, name: string): Promise<void> {
  const { db, log } = context;
  const claimed = await store.claimOrder(db, { name, waitsMs: WAITS_MS });
  if (claimed === null) return;
  const attempt = { name, failures: claimed.failures };
  const run = new OrderRun(context, attempt, claimed);
  try {
    const certificate = await run.order();
    await store.completeOrder(db, attempt, { ...certificate, restMs: REST_MS });
    log.info({ name, renew_at: certificate.renewAt }, `a certificate for ${name} was issued`);
  } catch (error) {
    if (!(error instanceof AcmeError)) throw error;
    if (context.signal.aborted && !run.hasValidated) return await store.returnOrder(db, attempt);
    await run.fail(error);
  } finally {
    await run.removeChallenges(log);
  }
}

/** Returns when a third of the life of the certificate is left. */
export function renewalOf(chain: string): Date {
  const [{ validFromDate, validToDate }] = readChain(chain);
  const [fromMs, untilMs] = [validFromDate.getTime(), validToDate.getTime()];
  return new Date(untilMs - (untilMs - fromMs) / 3);
}

class OrderRun {
  readonly #context: OrderContext;
  readonly #attempt: store.Attempt;
  readonly #claimed: store.ClaimedOrder;
  readonly #answers: store.Challenge[] = [];
  #dnsChallenges: Promise<DnsChallenges> | null = null;
  hasValidated = false;

  constructor(context: OrderContext, attempt: store.Attempt, claimed: store.ClaimedOrder) {
    this.#context = context;
    this.#attempt = attempt;
    this.#claimed = claimed;
  }

  async order(): Promise<{ chain: string; privateKey: Buffer; renewAt: Date }> {
    const { db, secrets, acme } = this.#context;
    const { id, orderUrl, orderKey, chain } = this.#claimed;
    const signal = AbortSignal.any([this.#context.signal, AbortSignal.timeout(ORDER_TIMEOUT_MS)]);
    const client = await openClient(this.#context, signal);
    const isContinued = orderKey !== null && secrets.opens(orderKey, id);
    const privateKey = isContinued ? secrets.open(orderKey, id) : makeKey();
    const sealed = secrets.seal(privateKey, id);
    const issued = await orderCertificate(client, {
      name: this.#attempt.name,
      email: acme.email,
      externalAccount: acme.externalAccount,
      challenge: acme.challenge,
      replaces: chain === null ? null : renewalId(readChain(chain)[0]),
      privateKey,
      orderUrl: isContinued ? orderUrl : null,
      onOrdered: (url) => {
        return store.noteOrder(db, this.#attempt, { orderUrl: url, orderKey: sealed });
      },
      publish: async (challenge) => {
        this.#answers.push(challenge);
        if (acme.challenge === 'http-01') return store.addChallenge(db, challenge);
        await (await this.#openDnsChallenges()).publish(this.#dnsAnswer(challenge), signal);
      },
      onValidating: () => (this.hasValidated = true),
      signal,
    });
    return { chain: issued, privateKey: sealed, renewAt: renewalOf(issued) };
  }

  async fail(error: AcmeError): Promise<void> {
    const { db, acme, log } = this.#context;
    const { name, failures } = this.#attempt;
    const problem = `No certificate for ${name} was issued: ${error.message}`;
    const { directoryUrl: url, challenge } = acme;
    const remedy = remedyOf(error, { name, url, challenge });
    const waits = this.hasValidated ? WAITS_MS : EARLY_WAITS_MS;
    const ownWaitMs = waits[Math.min(failures, waits.length) - 1] ?? 0;
    const waitMs = Math.max(ownWaitMs, Math.min(error.retryAfterMs ?? 0, RETRY_AFTER_MAX_MS));
    await store.failOrder(db, this.#attempt, { problem, remedy, waitMs });
    log.warn({ name, acme_error: error.type, retry_in_s: waitMs / 1_000, remedy }, problem);
  }

  /** Failures are only logged: a TXT record that remains in DNS has no effect. */
  async removeChallenges(log: OrderContext['log']): Promise<void> {
    const { db, acme } = this.#context;
    if (this.#answers.length === 0) return;
    if (acme.challenge === 'http-01') {
      const tokens = this.#answers.map(({ token }) => token);
      return store.removeChallenges(db, tokens);
    }
    const challenges = await this.#openDnsChallenges();
    for (const answer of this.#answers) {
      await challenges.remove(this.#dnsAnswer(answer)).catch((error: unknown) => {
        const record = `_acme-challenge.${this.#attempt.name}`;
        log.warn({ err: error, record }, `the TXT record ${record} could not be removed`);
      });
    }
    challenges.close();
  }

  #openDnsChallenges(): Promise<DnsChallenges> {
    return (this.#dnsChallenges ??= this.#context.openDnsChallenges());
  }

  #dnsAnswer({ keyAuthorization }: store.Challenge) {
    return { name: this.#attempt.name, keyAuthorization };
  }
}

export async function openClient(context: OrderContext, signal: AbortSignal): Promise<AcmeClient> {
  const accountKey = createPrivateKey(await findAccountKey(context));
  return new AcmeClient({ directoryUrl: context.acme.directoryUrl, accountKey, signal });
}

/** The key of the account at this authority. One that no secret key opens is replaced, which is a new account. */
async function findAccountKey({ db, secrets, acme, world }: OrderContext): Promise<string> {
  const id = world.newId();
  const privateKey = makeKey();
  const fresh = { id, privateKey: secrets.seal(privateKey, id) };
  const account = await store.findOrAddAccount(db, acme.directoryUrl, fresh);
  if (secrets.opens(account.privateKey, account.id)) {
    return secrets.open(account.privateKey, account.id);
  }
  await store.replaceAccount(db, acme.directoryUrl, fresh);
  return privateKey;
}

function makeKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' });
}
