/**
 * SMTP submission (RFC 6409) for applications that cannot use HTTP. Mail is accepted by the same rules. The password
 * is an API key, From determines the sending domain, and RCPT names the recipients. Bounces return to the service, so
 * the envelope sender only receives the notices that the client requests (RFC 3461).
 *
 * A 250 with the id of the email means the same as a 202: the email is on disk and will be attempted.
 */
import type { Logger } from 'pino';
import type { AuthLimiter } from '../accounts/keys/auth-limiter.ts';
import type { KeyCache } from '../accounts/keys/key-cache.ts';
import type { KeyUsage } from '../accounts/keys/key-usage.ts';
import type { Config } from '../config/config.ts';
import {
  isRefusal,
  Overloaded,
  type Refusal,
  type RefusalCode,
  refuseNetwork,
} from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import { type Address, parseAddress } from '../mail/address.ts';
import { FEEDBACK_ID } from '../mail/compose.ts';
import type { DsnRequest, RcptDsn } from '../mail/dsn-parameters.ts';
import { matchesPattern } from '../mail/address-patterns.ts';
import { plainAddress } from '../net/ip-addresses.ts';
import { isInNetworks } from '../net/networks.ts';
import { serverReply, closingReply, type ServerReply } from '../net/smtp/server/server-types.ts';
import type {
  SmtpEnvelope,
  SmtpHandlers,
  SmtpLogIn,
  SmtpMessage,
  SmtpServerLimits,
  SmtpSession,
} from '../net/smtp/server/smtp-server.ts';
import type { AcceptEmail } from './accept.ts';
import { refuseRecipient } from './accept-refusals.ts';
import type { AcceptResult } from './accept-results.ts';
import type { DraftRules } from './draft.ts';
import { recipientUrls, type UrlSettings } from './content/recipient-urls.ts';
import {
  ENVELOPE_RECIPIENTS_MAX,
  readSubmission,
  readSubmittedRecipient,
} from './submitted-message.ts';
import { AcceptedUnknown } from './store/lost-commits.ts';
import { busyReasonOf, DatabaseUnavailable } from '../database/database.ts';
import type { SecretBox } from '../secrets/secret-box.ts';

export type SubmissionOptions = {
  accept: AcceptEmail;
  keys: Pick<KeyCache, 'find'>;
  limiter: Pick<AuthLimiter, 'count'>;
  keyUsage: Pick<KeyUsage, 'record'>;
  /** Called for each log-in whose key was looked up. `limited`: the client had too many invalid attempts. */
  onLogIn: (result: 'ok' | 'refused' | 'limited', session: SmtpSession<Caller>) => void;
  config: Pick<Config, 'hostname' | 'submissionShowsClient'> & UrlSettings;
  secrets: Pick<SecretBox, 'derive'>;
  localUrl: string;
  world: Pick<World, 'now' | 'newId' | 'monotonicMs'>;
  log: Logger;
};

/** Allows one application many sessions, and all its mail on one of them. */
export const SUBMISSION_LIMITS: Partial<SmtpServerLimits> = {
  recipientsPerMessage: ENVELOPE_RECIPIENTS_MAX,
  connectionsPerClient: 500,
  messagesPerSession: Infinity,
};

const INVALID_KEY = serverReply(
  535,
  '5.7.8',
  'The password must be a valid API key; the user name may be letterhaus or any other.',
);
const DATABASE_UNAVAILABLE = serverReply(
  454,
  '4.7.0',
  'The database cannot be reached; try again in a moment.',
);

/**
 * Accepts any valid key in its networks. Disconnects a client after too many invalid attempts. Ignores the user
 * name: the key alone identifies the caller, and clients made for other services send `apikey`, `resend` or a name
 * of their own.
 */
export function createLogIn(options: SubmissionOptions): SmtpLogIn<Caller> {
  const { keys, limiter, keyUsage, onLogIn } = options;
  return async (session, { pass }) => {
    try {
      const caller = await keys.find(pass);
      if (caller !== null) {
        const clientAddress = plainAddress(session.remoteAddress);
        const { allowedNetworks } = caller;
        if (allowedNetworks !== null && !isInNetworks(allowedNetworks, clientAddress)) {
          onLogIn('refused', session);
          return { refused: serverReply(535, '5.7.8', refuseNetwork(clientAddress).message) };
        }
        keyUsage.record(caller);
        onLogIn('ok', session);
        return { user: { ...caller, clientAddress } };
      }
      const { allowed, limit } = await limiter.count(session.client);
      onLogIn(allowed ? 'refused' : 'limited', session);
      return { refused: allowed ? INVALID_KEY : tooManyAttempts(limit.resetS) };
    } catch (error) {
      if (replyToError(error) === null) throw error;
      return { refused: DATABASE_UNAVAILABLE };
    }
  };
}

function tooManyAttempts(resetS: number): ServerReply {
  const why = 'Too many attempts without a valid API key came from your address';
  return closingReply(421, '4.7.0', `${why}; try again in ${resetS} s.`);
}

export function createSubmission(options: SubmissionOptions): SmtpHandlers<Caller> {
  const { log, world } = options;
  return {
    onRcpt(session, address) {
      const read = readSubmittedRecipient(address, rulesFor(session, options));
      if (isRefusal(read)) return serverReply(553, '5.1.3', read.message);
      const { allowedRecipients } = callerOf(session);
      if (allowedRecipients === null || matchesPattern(allowedRecipients, read.address))
        return null;
      return replyToRefusal(refuseRecipient(read.address));
    },
    async onMessage(session, envelope, message) {
      const startedMs = world.monotonicMs();
      const { reply, emailId } = await acceptMessage({ session, envelope, message }, options);
      // Logs no mail addresses and no content, like the log of HTTP requests.
      log.info(
        {
          session_id: session.id,
          client: plainAddress(session.remoteAddress),
          project_id: session.user?.projectId,
          code: reply.code,
          enhanced_code: reply.enhanced ?? undefined,
          email_id: emailId,
          duration_ms: Math.round((world.monotonicMs() - startedMs) * 10) / 10,
        },
        'submission',
      );
      return reply;
    },
  };
}

type SubmissionResult = { reply: ServerReply; emailId?: string };

type SubmittedBy = {
  session: SmtpSession<Caller>;
  envelope: SmtpEnvelope;
  message: SmtpMessage;
};

async function acceptMessage(
  { session, envelope, message }: SubmittedBy,
  options: SubmissionOptions,
): Promise<SubmissionResult> {
  const { world, config } = options;
  const caller = callerOf(session);
  const rules = rulesFor(session, options);
  const { recipients, dsn } = readEnvelope(envelope, rules);
  const submission = readSubmission({
    ...message,
    recipients,
    dsn,
    projectId: caller.projectId,
    feedbackKey: options.secrets.derive(FEEDBACK_ID),
    trackingUrl: rules.trackingUrl,
    trace: {
      client: config.submissionShowsClient
        ? { helo: session.helo, address: session.remoteAddress }
        : null,
      protocol: session.protocol,
      hostname: config.hostname,
      emailId: world.newId(),
      at: new Date(world.now()),
    },
  });
  if (isRefusal(submission)) return { reply: replyToRefusal(submission) };
  try {
    const { draft, idempotency } = submission;
    return replyWithResult(await options.accept(caller, draft, idempotency));
  } catch (error) {
    const reply = replyToError(error);
    if (reply === null) throw error;
    return { reply };
  }
}

function readEnvelope(
  { from, recipients, dsn, recipientDsn }: SmtpEnvelope,
  rules: DraftRules,
): { recipients: Address[]; dsn?: DsnRequest } {
  const asked: Record<Address, RcptDsn> = {};
  const addresses = recipients.flatMap((text): Address[] => {
    const read = readSubmittedRecipient(text, rules);
    if (isRefusal(read)) return [];
    const rcptDsn = recipientDsn?.get(text);
    if (rcptDsn !== undefined) asked[read.address] ??= rcptDsn;
    return [read.address];
  });
  if (dsn === undefined && recipientDsn === undefined) return { recipients: addresses };
  const { ret = null, envid = null } = dsn ?? {};
  const sender = parseAddress(from);
  return {
    recipients: addresses,
    dsn: { kind: 'request', sender, ret, envid, recipients: asked },
  };
}

function replyWithResult(result: AcceptResult): SubmissionResult {
  if (result.kind === 'refused') return { reply: replyToRefusal(result) };
  const { id } = JSON.parse(result.body) as { id: string };
  // Mail libraries look for Postfix's words and read the rest of the line as the id.
  const reply = serverReply(250, '2.0.0', `Ok: queued as ${id}`);
  if (result.kind === 'repeated') reply.firstLine = 'Accepted before';
  return { reply, emailId: id };
}

function rulesFor(session: SmtpSession<Caller>, { config, localUrl }: SubmissionOptions) {
  const { environment } = callerOf(session);
  const { trackingUrl } = recipientUrls(config, { environment, localUrl });
  return { environment, allowPrivateNetworks: config.allowPrivateNetworks, trackingUrl };
}

function callerOf({ user }: SmtpSession<Caller>): Caller {
  if (user === null) throw new Error('a message was received before the log-in');
  return user;
}

/**
 * Maps refusals to replies (RFC 5321, RFC 3463): 4xx where a retry of the same message can succeed, else 5xx. The
 * reply's sentence is the API's.
 */
const REPLIES = {
  validation_error: [554, '5.6.0'],
  authentication_error: [550, '5.7.8'],
  totp_required: [550, '5.7.8'],
  authorization_error: [550, '5.7.1'],
  key_restricted: [550, '5.7.1'],
  domain_not_verified: [550, '5.7.1'],
  not_found: [554, '5.5.0'],
  idempotency_conflict: [554, '5.5.0'],
  conflict: [554, '5.5.0'],
  precondition_failed: [554, '5.5.0'],
  suppressed: [550, '5.7.1'],
  rate_limit_error: [451, '4.7.1'],
  service_unavailable: [451, '4.3.0'],
} as const satisfies Record<RefusalCode, readonly [code: number, enhanced: string]>;

export function replyToRefusal({ refused, message, details, isStorageFull }: Refusal): ServerReply {
  if (isStorageFull) return serverReply(452, '4.3.1', message);
  // The client has no permission to use this sender.
  if (/^(?:from|sender|resent-.*)$/i.test(details?.[0]?.field ?? ''))
    return serverReply(550, '5.7.1', message);
  const [code, enhanced] = REPLIES[refused];
  return serverReply(code, enhanced, message);
}

export function replyToError(error: unknown): ServerReply | null {
  const unavailable = (text: string) => serverReply(451, '4.3.0', text);
  if (error instanceof Overloaded) {
    return unavailable(`Nothing was accepted: ${error.message}; try again in a moment.`);
  }
  if (error instanceof AcceptedUnknown) {
    return unavailable(
      'The connection to the database was lost: the email may have been accepted. ' +
        'Sending it again with the same X-Letterhaus-Idempotency-Key is safe.',
    );
  }
  if (!(error instanceof DatabaseUnavailable)) return null;
  const busy = busyReasonOf(error);
  const why =
    busy === null
      ? 'The database cannot be reached'
      : `The database refused the message for now, because ${busy}`;
  return unavailable(`${why}; nothing was accepted, try again in a moment.`);
}
