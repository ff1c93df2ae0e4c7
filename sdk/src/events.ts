/**
 * The types of events, each with its data: `event.type` determines the type of `event.data`.
 *
 * ```ts
 * if (event.type === 'email.bounced') console.log(event.data.recipient, event.data.reason.advice);
 * ```
 *
 * Later versions of the service may add types and fields. A `switch` needs a `default` that ignores unknown
 * types.
 */
import type * as api from './api.ts';

/** Data of an event about a whole email. */
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

/** Data of an event about one recipient. */
export type RecipientData = EmailData & {
  recipient: string;
  /** Reply of the mail server, if there was one. */
  smtp?: api.SmtpAnswer | undefined;
};

/** Data of an event about a recipient that did not get the email, or complained about it. */
export type ProblemData = RecipientData & { reason: api.Reason };

/** One open or click of an email. */
export type Visit = {
  ip: string;
  user_agent: string | null;
  /** True when the request came from a machine, such as a scanner. */
  is_bot: boolean;
  bot_reason: string | null;
};

/** A condition that an operator must act on. It has an event at its beginning and at its end. */
export type ConditionData = {
  subject: string;
  state: 'raised' | 'cleared';
  message: string;
  /** What to do; null when the condition has ended. */
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

/** `data` by type. Conditions go to operators' keys and webhooks, other events to those of a project. */
export type EventData = {
  /** Has `scheduled_at` when the email was rescheduled to a past time. */
  'email.queued': EmailData & { scheduled_at?: string | undefined };
  'email.scheduled': EmailData & { scheduled_at: string };
  'email.sent': RecipientData;
  'email.delivered': RecipientData;
  'email.delivery_delayed': ProblemData;
  'email.bounced': ProblemData;
  'email.complained': ProblemData;
  'email.suppressed': ProblemData;
  'email.failed': ProblemData;
  /** Has `recipients` when the sender canceled, and one `recipient` when an operator did. */
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

/** An event of a webhook. Only the test of a webhook sends `webhook.test`. */
export type WebhookEvent =
  | {
      [Type in EventType]: {
        type: Type;
        /** Id of the event, the same in each attempt, each replay and the stream. */
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
