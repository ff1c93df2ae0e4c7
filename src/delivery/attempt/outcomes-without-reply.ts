/** The outcomes of a delivery that ends or waits without a reply of a mail server, and the advice that each gives. */
import type { StoredStatus } from '../../core/statuses.ts';
import { COMPLAINT, type Reason } from '../../mail/replies/meanings.ts';
import type { Outcome } from './outcome.ts';

export function withoutReply(status: StoredStatus, reason: Reason): Outcome {
  return { status, reason, smtp: null, suppress: null, slowDown: false };
}

export const EXPIRED = withoutReply('failed', {
  category: 'expired',
  blame: 'receiver',
  advice: 'The email expired. The timeline shows the result of each attempt.',
});

export const EXPIRED_MAILBOX_FULL: Outcome = {
  ...withoutReply('failed', {
    category: 'expired',
    blame: 'recipient',
    advice: 'The mailbox was full until the email expired.',
  }),
  mailboxFull: true,
};

/** Returns the outcome of an email that expired untried, for example during an outage of its provider. */
export function expiredUntried(outageReason: string | null): Outcome {
  const why =
    outageReason === null
      ? 'it waited behind other mail or on hold.'
      : `no server of the provider answered meanwhile (${outageReason}).`;
  return withoutReply('failed', {
    category: 'expired',
    blame: outageReason === null ? 'us' : 'receiver',
    advice: `The email expired before it could be tried: ${why}`,
  });
}

const NO_UPLINK = 'no mail server answered this service, so its own network connection was down.';

/** Blames this service. Stored once, without an attempt, so that the waits between attempts do not grow. */
export function deferredByUplink({ smtp }: Outcome): Outcome {
  const advice =
    'No mail server answers this service, so its own network connection is down; ' +
    'the email is sent as soon as a server answers.';
  return { ...withoutReply('deferred', { category: 'network', blame: 'us', advice }), smtp };
}

export const EXPIRED_WITHOUT_UPLINK = withoutReply('failed', {
  category: 'expired',
  blame: 'us',
  advice: `The email expired, and ${NO_UPLINK}`,
});

export const EXPIRED_WITHOUT_TLS = withoutReply('failed', {
  category: 'tls',
  blame: 'receiver',
  advice:
    'The email expired, and no server of the domain had offered the TLS that is ' +
    'required. The timeline shows the result of each attempt.',
});

export const SUPPRESSED = withoutReply('suppressed', {
  category: 'mailbox',
  blame: 'recipient',
  advice: 'The address is on the suppression list. Remove it there if it works again.',
});

export const DOMAIN_REMOVED = withoutReply('failed', {
  category: 'policy',
  blame: 'sender',
  advice: 'The sending domain was removed before the email was sent. Add and verify it again.',
});

/** Its row of `contents` is gone, for example after a repair of the database. */
export const CONTENT_MISSING = withoutReply('failed', {
  category: 'policy',
  blame: 'us',
  advice: 'The stored content of the email was lost before it could be sent. Send it again.',
});

/** The stored message differs from the accepted one (mail/dkim.ts). */
export const UNSIGNABLE = withoutReply('failed', {
  category: 'authentication',
  blame: 'us',
  advice:
    'The message does not name exactly one author of the sending domain, so it was neither signed ' +
    'nor sent; send it again with one address in From.',
});

/** Its signature would not verify, so the mail waits for the DNS records until it expires. */
export const DOMAIN_UNVERIFIED = withoutReply('deferred', {
  category: 'authentication',
  blame: 'sender',
  advice:
    'The sending domain is no longer verified. Publish its records again and verify it, ' +
    'and its mail is sent.',
});

export const EXPIRED_UNVERIFIED = withoutReply('failed', {
  category: 'expired',
  blame: 'sender',
  advice:
    'The email expired while its sending domain was no longer verified. ' +
    'Publish its records again and verify it.',
});

/** RFC 5321 §2.3.5: EHLO requires a fully qualified name. Many servers refuse other names with a 5xx. */
export const NO_HOST_NAME = withoutReply('deferred', {
  category: 'protocol',
  blame: 'us',
  advice:
    'This service has no fully qualified host name for EHLO. ' +
    'Set LETTERHAUS_HOSTNAME to the name in the reverse DNS of its address.',
});

/** The key's row is damaged, or was sealed with another secret key. After a repair the mail is sent. */
export function unsignable(domain: string): Outcome {
  return withoutReply('deferred', {
    category: 'authentication',
    blame: 'us',
    advice:
      `This service cannot open its DKIM key of ${domain}, so the email is not sent. ` +
      `The operator must restore it (letterhaus domains verify ${domain} explains how).`,
  });
}

export const EXPIRED_UNSIGNED = withoutReply('failed', {
  category: 'expired',
  blame: 'us',
  advice:
    'The email expired while this service could not open the DKIM key of the sending domain. ' +
    'The operator must restore it.',
});

/** Number of attempts in doubt. After the last one the message is not sent again. */
export const DOUBTS_MAX = 3;

export function givenUpInDoubt(outcome: Outcome): Outcome {
  const reason: Reason = {
    category: 'network',
    blame: 'receiver',
    advice:
      `The connection was lost ${DOUBTS_MAX} times before the server confirmed the message. It may have arrived, ` +
      'and is not sent again so that its recipient gets no more copies.',
  };
  return { ...outcome, status: 'failed', reason };
}

export const DROPPED = withoutReply('canceled', {
  category: 'policy',
  blame: 'us',
  advice: 'The email was dropped from the queue before it was sent.',
});

export const COMPLAINED: Outcome = {
  ...withoutReply('complained', COMPLAINT),
  suppress: { reason: 'complaint', days: null },
};
