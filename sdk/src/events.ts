/**
 * The types of events, each with its data: `event.type` says which `event.data` it has.
 *
 * ```ts
 * if (event.type === 'email.bounced') console.log(event.data.recipient, event.data.reason.advice);
 * ```
 *
 * Later versions of the service may add types and fields. A `switch` needs a `default` that ignores what it does not
 * know.
 */
import type * as api from './api.ts';

/** Of a whole email. */
export type EmailData = {
  email_id: string;
  from: string;
  to: string[];
  subject: string;
  tags: Array<{ name: string; value: string }>;
  metadata: Record<string, string>;
  message_id: string;
  status: api.EmailStatus;
};

/** Of one recipient of an email. */
export type RecipientData = EmailData & {
  recipient: string;
  /** The reply of the mail server, if there was one. */
  smtp?: api.SmtpAnswer | undefined;
};

/** Of a recipient that did not get the email, or reported it. */
export type ProblemData = RecipientData & { reason: api.Reason };

/** One opening of an email, or one click. */
export type Visit = {
  ip: string;
  user_agent: string | null;
  /** A machine, such as a scanner, and not a person. */
  is_bot: boolean;
  bot_reason: string | null;
};

/** Something that an operator has to act on, at its beginning and its end. */
export type ConditionData = {
  subject: string;
  state: 'raised' | 'cleared';
  message: string;
  /** What to do; null: nothing, it is over. */
  remedy: string | null;
  details: Record<string, unknown>;
  since: string;
};

export type SuppressionData = Omit<api.Suppression, 'object'>;

export type ReputationData = {
  project_id: string;
  environment: 'live' | 'test';
  domain: string;
  kind: 'bounce' | 'complaint';
  state: 'raised' | 'cleared';
  rate: string;
  threshold: string;
  count: number;
  ended: number;
  paused: boolean;
  since: string;
};

export type DisabledWebhookData = {
  webhook_id: string;
  url: string;
  reason: string;
  failing_since: string | null;
};

/** `data` by type. An operator's key and webhooks get conditions, those of a project the rest. */
export type EventData = {
  /** With `scheduled_at` where it was rescheduled to a time that is over. */
  'email.queued': EmailData & { scheduled_at?: string | undefined };
  'email.scheduled': EmailData & { scheduled_at: string };
  'email.sent': RecipientData;
  'email.delivered': RecipientData;
  'email.delivery_delayed': ProblemData;
  'email.bounced': ProblemData;
  'email.complained': ProblemData;
  'email.suppressed': ProblemData;
  'email.failed': ProblemData;
  /** By its sender with `recipients`; by an operator with one `recipient`. */
  'email.canceled': EmailData & {
    recipients?: string[] | undefined;
    recipient?: string | undefined;
    reason?: api.Reason | undefined;
  };
  'email.opened': RecipientData & { open: Visit };
  'email.clicked': RecipientData & { click: Visit & { link: string } };
  'domain.created': api.Domain;
  'domain.verified': api.Domain;
  'domain.degraded': api.Domain | ConditionData;
  'domain.recovered': api.Domain | ConditionData;
  'domain.failed': api.Domain;
  'domain.deleted': api.Domain;
  'suppression.added': SuppressionData;
  'suppression.removed': SuppressionData;
  'project.reputation_alert': ReputationData;
  'webhook.disabled': DisabledWebhookData | ConditionData;
} & Record<OperatorEventType, ConditionData>;

type OperatorEventType = Exclude<
  api.StreamEvent['type'],
  | `email.${string}`
  | `domain.${string}`
  | `suppression.${string}`
  | 'project.reputation_alert'
  | 'webhook.disabled'
>;

export type EventType = api.StreamEvent['type'];

/** An event of the stream. */
export type StreamEvent = {
  [Type in EventType]: Omit<api.StreamEvent, 'type' | 'data'> & {
    type: Type;
    data: EventData[Type];
  };
}[EventType];

/** An event of a webhook. `webhook.test` is sent only by the test of a webhook. */
export type WebhookEvent =
  | {
      [Type in EventType]: {
        type: Type;
        /** The event: the same in each repeated delivery, and in the stream. */
        id: string;
        created_at: string;
        data: EventData[Type];
      };
    }[EventType]
  | {
      type: 'webhook.test';
      id: string;
      created_at: string;
      data: { webhook_id: string; message: string };
    };
