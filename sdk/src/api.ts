// Generated from docs/openapi.json by `npm run openapi`.

export type AcceptedBatch = {
  /** Accepted emails in the order of the request. */
  data: Array<{
    /** The email. */
    id: string;
  }>;
  /** Refused emails in the order of the request. Empty with `strict`. */
  errors: Array<{
    /** Index of the email in the request, from 0. */
    index: number;
    /** Stable code of the error. */
    code: string;
    /** One sentence that says what is wrong and what to do. */
    message: string;
  }>;
};

export type AcceptedEmail = {
  object: 'email';
  /** The email. */
  id: string;
  status: EmailStatus;
  /** Time of acceptance. */
  created_at: string;
};

export type AcceptedEmailOrDryRun = AcceptedEmail | DryRun;

export type ApiKey = {
  object: 'api_key';
  /** The id of the key. */
  id: string;
  /** Label of the key. Two keys may have the same label. */
  name: string;
  /** First characters of the key, to recognize it. */
  hint: string;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Permission of the key. A key with `sending_access` may send emails, and read the emails that it sent. */
  permission: 'full_access' | 'sending_access';
  /** The only domain that the key may use, or null for all domains. */
  domain: string | null;
  /** The networks from which the key may be used, over HTTP and SMTP, or null for all. */
  allowed_networks: string[] | null;
  /** The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may send from, or null for all domains of the project. */
  allowed_senders: string[] | null;
  /** The addresses, domains and subdomains that the key may send to, or null for all. */
  allowed_recipients: string[] | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry, or null when the key does not expire. */
  expires_at: string | null;
  /** Time of the last use, to the minute, or null before the first use. */
  last_used_at: string | null;
  /** What prevents the key from sending, such as a domain that the project does not have. */
  warnings: string[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type ApiKeyChange = {
  /** Label of the key. Two keys may have the same label. */
  name?: string | undefined;
  /** Permission of the key. A key with `sending_access` may send emails, and read the emails that it sent. */
  permission?: 'full_access' | 'sending_access' | undefined;
  /** The only domain that the key may use, or null for all domains. */
  domain?: string | null | undefined;
  /** Time of expiry, or null when the key does not expire. */
  expires_at?: string | null | undefined;
  /** The networks from which the key may be used, over HTTP and SMTP, or null for all. */
  allowed_networks?: string[] | null | undefined;
  /** The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may send from, or null for all domains of the project. */
  allowed_senders?: string[] | null | undefined;
  /** The addresses, domains and subdomains that the key may send to, or null for all. */
  allowed_recipients?: string[] | null | undefined;
};

export type ApiKeyCreation = {
  /** Label of the key. Two keys may have the same label. */
  name: string;
  /** Permission of the key. A key with `sending_access` may send emails, and read the emails that it sent. */
  permission?: 'full_access' | 'sending_access' | undefined;
  /** The only domain that the key may use, or null for all domains. */
  domain?: string | null | undefined;
  /** Time of expiry, or null when the key does not expire. */
  expires_at?: string | null | undefined;
  /** The networks from which the key may be used, over HTTP and SMTP, or null for all. */
  allowed_networks?: string[] | null | undefined;
  /** The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may send from, or null for all domains of the project. */
  allowed_senders?: string[] | null | undefined;
  /** The addresses, domains and subdomains that the key may send to, or null for all. */
  allowed_recipients?: string[] | null | undefined;
};

export type ApiKeyList = {
  object: 'list';
  data: ApiKey[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type ApiKeyRotation = {
  /** Seconds for which the old key stays valid. 0 ends it at once. */
  expires_in?: number | undefined;
};

export type ApiKeyWithSecret = {
  object: 'api_key';
  /** The id of the key. */
  id: string;
  /** Label of the key. Two keys may have the same label. */
  name: string;
  /** First characters of the key, to recognize it. */
  hint: string;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Permission of the key. A key with `sending_access` may send emails, and read the emails that it sent. */
  permission: 'full_access' | 'sending_access';
  /** The only domain that the key may use, or null for all domains. */
  domain: string | null;
  /** The networks from which the key may be used, over HTTP and SMTP, or null for all. */
  allowed_networks: string[] | null;
  /** The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may send from, or null for all domains of the project. */
  allowed_senders: string[] | null;
  /** The addresses, domains and subdomains that the key may send to, or null for all. */
  allowed_recipients: string[] | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry, or null when the key does not expire. */
  expires_at: string | null;
  /** Time of the last use, to the minute, or null before the first use. */
  last_used_at: string | null;
  /** What prevents the key from sending, such as a domain that the project does not have. */
  warnings: string[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  /** The secret key. It is returned only here. */
  key: string;
};

export type ApiRequest = {
  object: 'request';
  /** Id of the request, as in `X-Request-Id`. */
  id: string;
  method: string;
  /** Path of the request, without its query. */
  path: string;
  /** HTTP status of the response. */
  status: number;
  /** Milliseconds until the response was sent. */
  duration_ms: number;
  actor: {
    /** Type of the caller. */
    type: 'api_key' | 'member';
    /** Id of the key or member. */
    id: string;
    /** Current name of the key or member. */
    name: string | null;
    /** First characters of the key, to recognize it. */
    hint: string | null;
  };
  /** Network of the request. */
  network: string;
  /** User-Agent header of the request. */
  user_agent: string | null;
  /** Error of a failed request, as in the responses of `/v1`. */
  error: {
    code: string;
    message: string;
  } | null;
  /** Time of the entry, at most one second after the response. */
  created_at: string;
};

export type ApiRequestDetail = {
  object: 'request';
  /** Id of the request, as in `X-Request-Id`. */
  id: string;
  method: string;
  /** Path of the request, without its query. */
  path: string;
  /** HTTP status of the response. */
  status: number;
  /** Milliseconds until the response was sent. */
  duration_ms: number;
  actor: {
    /** Type of the caller. */
    type: 'api_key' | 'member';
    /** Id of the key or member. */
    id: string;
    /** Current name of the key or member. */
    name: string | null;
    /** First characters of the key, to recognize it. */
    hint: string | null;
  };
  /** Network of the request. */
  network: string;
  /** User-Agent header of the request. */
  user_agent: string | null;
  /** Error of a failed request, as in the responses of `/v1`. */
  error: {
    code: string;
    message: string;
  } | null;
  /** Time of the entry, at most one second after the response. */
  created_at: string;
  /** Outline of the body of a failed request. The sizes of contents, secrets and unknown fields replace their values. */
  body: unknown;
};

export type ApiRequestList = {
  object: 'list';
  data: ApiRequest[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type Attachment = {
  filename: string;
  /** Bytes of the file in base64. Required unless there is a `path`. */
  content?: string | undefined;
  /** Media type of the file. When absent, it is guessed from the filename. `text/*` in UTF-8 gets `charset=utf-8`. */
  content_type?: string | undefined;
  /** Content-ID of an inline attachment. The html refers to it as `cid:<content_id>`. */
  content_id?: string | undefined;
  /** HTTPS URL of the file at a public address, instead of `content`. The service downloads the file before it accepts the email. Redirects are not followed. */
  path?: string | undefined;
};

export type AuditEvent = {
  object: 'audit_event';
  /** The entry. */
  id: string;
  /** Operation id of the change. The command `letterhaus owner` has `makeOwnerLink` and `makePasswordLink`. */
  action: string;
  /** What was changed. */
  object_type: 'account' | 'api_key' | 'domain' | 'email' | 'installation' | 'invitation' | 'member' | 'project' | 'queue' | 'suppression' | 'template' | 'webhook';
  actor: {
    /** Type of the actor. */
    type: 'member' | 'api_key' | 'command';
    /** Id of the member or key, or null for a command. */
    id: string | null;
    /** Address of the member or name of the key at that time. */
    name: string | null;
    /** Current name of the member, or null for others and after removal. */
    member_name: string | null;
  };
  /** The project, or null for a change of the organization. */
  project_id: string | null;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test' | null;
  /** Id of the changed object. A suppression has its address, the return path host its name, and a reconciliation its day. */
  target_id: string | null;
  /** Name of the object at that time: a domain, a key, the URL of a webhook, the address of a member. Null for objects without a name. */
  target_name: string | null;
  /** Network of the request, or null for a command. */
  network: string | null;
  /** `X-Request-Id` of the request, or null for a command that does not use the API. */
  request_id: string | null;
  /** Time of the change. */
  created_at: string;
};

export type AuditEventList = {
  object: 'list';
  data: AuditEvent[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

/** Everything known about the delivery of an email, signed by the installation. */
export type CaseFile = {
  object: 'case_file';
  /** Version of the format. */
  version: number;
  signer: {
    algorithm: 'Ed25519';
    /** Public key of Ed25519: 32 octets in base64. */
    public_key: string;
    /** SHA-256 of the public key, in base64 without padding, after `SHA256:`. */
    fingerprint: string;
  };
  /** Time of the file. */
  made_at: string;
  installation: {
    /** Name of the machine in HELO. */
    hostname: string;
    /** Public URL, or null without one. */
    url: string | null;
  };
  /** The only recipient, or null for all. */
  recipient: string | null;
  email: CaseFileEmail;
  /** Events, oldest first. The `attempt` of an event has what was true at that time: server, address, TLS, dialogue and the SHA-256 of the message. */
  events: TimelineEvent[];
  /** False when the email has more than 1,000 events. */
  events_complete: boolean;
  /** Results of DNS checks of the sending domain: the last one before the email, and each different one until its last event. Empty for mail from before the service kept them. */
  domain_checks: CaseFileDomainCheck[];
  /** DNS and authentication at the time of the file. */
  diagnosis: Diagnosis;
  /** Message of the first recipient in the file, or null after the retention of content. */
  message: {
    recipient: string;
    size: number;
    sha256: string;
    /** Header with its signatures, as sent. */
    header: string;
  } | null;
  /** Signature over the canonical JSON (RFC 8785) of all other members, in base64. */
  signature: string;
};

/** What checks of the sending domain found, from the first to the last with this result. */
export type CaseFileDomainCheck = {
  /** First check with this result. */
  first_checked_at: string;
  /** Last check in a row with this result. */
  last_checked_at: string;
  records: Array<{
    record: 'DKIM' | 'SPF' | 'MX';
    name: string;
    required: boolean;
    status: 'not_started' | 'verified' | 'missing' | 'mismatch' | 'dns_error';
    /** Records that DNS returned for the name. */
    found: string[];
  }>;
  dmarc: {
    status: 'found' | 'missing' | 'dns_error';
    /** Domain that published the records, or null without any. */
    domain: string | null;
    /** DMARC records that DNS returned. */
    found: string[];
  };
};

/** The email, with hashes instead of its content. */
export type CaseFileEmail = {
  object: 'email';
  /** The email. */
  id: string;
  /** Message-ID header, with its angle brackets. */
  message_id: string;
  from: string;
  to: string[];
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string;
  status: EmailStatus;
  last_event: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow';
  /** Time of acceptance. */
  created_at: string;
  /** Scheduled time of sending, or null for at once. */
  scheduled_at: string | null;
  /** Time at which the first recipient received the email, or null before. */
  sent_at: string | null;
  /** Time at which the last recipient reached its final status, or null before. */
  completed_at: string | null;
  tags: Array<{
    name: string;
    value: string;
  }>;
  metadata: Record<string, string>;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Tracking of the email or its domain. Both fields are false after the retention of content. */
  tracking: {
    opens: boolean;
    clicks: boolean;
  };
  recipients: Recipient[];
  /** SHA-256 of the html of the email in hex, or null without one. */
  html_sha256: string | null;
  /** SHA-256 of the text of the email in hex, or null without one. */
  text_sha256: string | null;
};

export type Connection = {
  object: 'connection';
  /** Address of the API, without a trailing slash. */
  url: string;
  /** False when `url` is the address of this machine, because none is configured. */
  has_public_url: boolean;
  smtp: {
    host: string;
    /** Ports that take mail of clients. Empty: none. */
    ports: number[];
  };
  /** DNS provider at which owners can publish records, or null. */
  dns_provider: 'cloudflare' | 'route53' | 'hetzner' | 'digitalocean' | 'desec' | null;
};

export type Credentials = {
  /** Email address for signing in. */
  email: string;
  /** The password. */
  password: string;
  /** Code from the authenticator app, or a recovery code. */
  code?: string | undefined;
};

export type CurrentApiKey = {
  object: 'api_key';
  /** The id of the key. */
  id: string;
  /** Label of the key. Two keys may have the same label. */
  name: string;
  /** First characters of the key, to recognize it. */
  hint: string;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Permission of the key. A key with `sending_access` may send emails, and read the emails that it sent. */
  permission: 'full_access' | 'sending_access';
  /** The only domain that the key may use, or null for all domains. */
  domain: string | null;
  /** The networks from which the key may be used, over HTTP and SMTP, or null for all. */
  allowed_networks: string[] | null;
  /** The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may send from, or null for all domains of the project. */
  allowed_senders: string[] | null;
  /** The addresses, domains and subdomains that the key may send to, or null for all. */
  allowed_recipients: string[] | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry, or null when the key does not expire. */
  expires_at: string | null;
  /** Time of the last use, to the minute, or null before the first use. */
  last_used_at: string | null;
  /** What prevents the key from sending, such as a domain that the project does not have. */
  warnings: string[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  project: {
    /** The project of the key. */
    id: string;
    name: string;
  };
  /** The organization of the project. */
  organization_id: string;
};

export type DeletedApiKey = {
  object: 'api_key';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedDomain = {
  object: 'domain';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
  /** Number of recipients that waited for mail of this domain. They end as `failed`. */
  waiting: number;
};

export type DeletedInvitation = {
  object: 'invitation';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedMember = {
  object: 'member';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedPasskey = {
  object: 'passkey';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedSession = {
  object: 'session';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedSnooze = {
  object: 'snooze';
  /** The finding. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedSuppression = {
  object: 'suppression';
  /** Address as it was added. It is case-insensitive. */
  address: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedTemplate = {
  object: 'template';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedView = {
  object: 'view';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type DeletedWebhook = {
  object: 'webhook';
  /** The deleted object. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type Diagnosis = {
  object: 'diagnosis';
  /** The email. */
  id: string;
  status: EmailStatus;
  summary: string;
  /** Time of acceptance. */
  created_at: string;
  /** Scheduled time of sending, or null for at once. */
  scheduled_at: string | null;
  /** Time of expiry. No attempt begins after it. */
  expires_at: string;
  sender: {
    domain: string;
    status: 'not_started' | 'pending' | 'verified' | 'degraded' | 'failed' | 'removed';
    /** Authentication of the domain in the current DNS records, or null when the domain was removed. */
    authentication: {
      /** One entry for each signature of the message. */
      dkim: Array<{
        domain: string;
        selector: string;
        algorithm: 'rsa-sha256' | 'ed25519-sha256';
        /** Result of the check. `unknown`: DNS did not answer, and `problem` has the reason. */
        verdict: 'pass' | 'fail' | 'unknown';
        /** True when the domain is aligned with the domain of `from` for DMARC. */
        aligned: boolean;
        /** One sentence about the problem or the unknown result, or null without a problem. */
        problem: string | null;
      }>;
      spf: {
        /** Domain of the return path. */
        domain: string;
        /** Result of the check. `unknown`: DNS did not answer, and `problem` has the reason. */
        verdict: 'pass' | 'fail' | 'unknown';
        /** True when the domain is aligned with the domain of `from` for DMARC. */
        aligned: boolean;
        /** One sentence about the problem or the unknown result, or null without a problem. */
        problem: string | null;
      };
      dmarc: {
        /** Domain whose DMARC record applies, or null without a valid record. */
        domain: string | null;
        policy: 'none' | 'quarantine' | 'reject' | null;
        /** Result of the check. `none`: DNS has no valid record. `unknown`: DNS did not answer. */
        verdict: 'pass' | 'fail' | 'none' | 'unknown';
        /** One sentence about the problem or the unknown result, or null without a problem. */
        problem: string | null;
      };
    } | null;
  };
  recipients: Array<{
    address: string;
    kind: 'to' | 'cc' | 'bcc';
    status: EmailStatus;
    attempts: number;
    /** One sentence about the last attempt. */
    what_happened: string;
    last_attempt: {
      number: number | null;
      /** End of the attempt. */
      ended_at: string | null;
      duration_ms: number | null;
      /** Step at which the attempt ended. */
      phase: string | null;
      /** True when the message may have arrived, because no reply to its final dot came. */
      in_doubt: boolean;
      smtp: SmtpAnswer | null;
      /** SMTP dialogue with the server, line by line. */
      dialogue: string[];
    } | null;
    reason: Reason | null;
    /** Limit that the recipient waits for now, or null when the recipient has ended. */
    held_by: {
      /** Limit that the recipient waits for. `attempt`: a worker is delivering the email. `retry`: the retry schedule. `suspension`, `rate`, `connections`: limits of the provider. `hold`: an operator. `pause`, `sender`: the sending domain. `signing_key`: the service cannot decrypt its DKIM key. `project`: earlier mail of the project. */
      limit: 'attempt' | 'database' | 'hold' | 'pause' | 'sender' | 'signing_key' | 'schedule' | 'retry' | 'suspension' | 'rate' | 'connections' | 'project' | 'service' | 'installation';
      /** One sentence about the limit, with its figure. */
      message: string;
      /** End of the wait, or null when it is unknown. */
      until: string | null;
    } | null;
    /** Route to the recipient, or null when DNS no longer affects it. */
    route: MailRoute | null;
    /** One sentence that says what to do. */
    next_step: string;
  }>;
};

/** DMARC record, reports and proposal of a domain. */
export type DmarcStatus = {
  object: 'dmarc_status';
  /** What the reports allow. `ready`: the proposal is safe by them. `others_fail`: it is safe if the failing addresses do not send for you. `own_mail_fails`: repair that first. `collecting`: there are too few reports yet. `no_reports`: none has arrived. `inherited`: the domain above publishes the policy. */
  state: 'unverified' | 'dns_error' | 'inherited' | 'no_record' | 'invalid_record' | 'no_reports' | 'collecting' | 'own_mail_fails' | 'others_fail' | 'ready' | 'strictest';
  /** What the reports say, and what to do. */
  message: string;
  /** Record in DNS, or null when receivers use none. */
  record: string | null;
  /** Policy of the record, or null when it has no valid one. */
  policy: string | null;
  /** Record with the next policy, to publish by hand, or null when it is too early. */
  proposal: string | null;
  /** Address at which this service receives reports about the domain. */
  report_address: string;
  /** Reports of two weeks under the policy of today, or null when they were not read. */
  reports: {
    count: number;
    /** Number of receivers that sent reports. */
    organizations: number;
    /** Number of days with a report. */
    days: number;
    /** Begin of the earliest report. */
    first_at: string | null;
    /** End of the latest report. */
    last_at: string | null;
    /** Addresses that sent messages, those with most failed messages first. */
    sources: Array<{
      ip: string;
      passed: number;
      failed: number;
    }>;
  } | null;
};

export type Doctor = {
  object: 'doctor';
  /** The running nodes, at most 100. */
  nodes: Array<{
    /** The node: its data directory. */
    id: string;
    /** Name of the machine. */
    host: string;
    /** True when a run was asked for and has not begun. */
    is_requested: boolean;
    /** Progress of the run, or null when there is none. */
    running: {
      /** Number of checks that have ended. */
      checks_ended: number;
      /** Number of all checks. */
      checks_total: number;
    } | null;
    /** End of the last run, or null before it. */
    finished_at: string | null;
    /** Seconds since then, or null. */
    age_seconds: number | null;
    checks: {
      /** Number of checks whose worst finding is red. */
      red: number;
      /** Number of checks whose worst finding is yellow. */
      yellow: number;
      /** Number of checks whose worst finding is unknown. */
      unknown: number;
      /** Number of checks whose worst finding is green. */
      green: number;
    };
    /** Findings of the last run, the worst first. */
    findings: DoctorFinding[];
  }>;
};

export type DoctorFinding = {
  /** Name of the check, as for `letterhaus doctor --only`. */
  check: string;
  /** Title of the check. */
  title: string;
  /** `red` blocks sending or loses mail. `yellow` hurts delivery, or will become red. `unknown`: the check had no result. `green`: no problem was found. */
  level: 'red' | 'yellow' | 'unknown' | 'green';
  /** Address, name or path that was checked, or null for the installation. */
  subject: string | null;
  /** What was found. */
  found: string;
  /** Effect on mail, or null. */
  meaning: string | null;
  /** What to do, or null. */
  remedy: string | null;
  /** Command for the shell, or null. */
  command: string | null;
  /** Section of the documentation. */
  docs: string;
};

/** A sending domain. */
export type Domain = {
  object: 'domain';
  /** The domain. */
  id: string;
  name: string;
  /** Status of the domain. `degraded`: two checks missed a required record of a verified domain. It still sends. `failed`: a required record was missing for 72 hours. It does not send. */
  status: 'not_started' | 'pending' | 'verified' | 'degraded' | 'failed';
  /** False when the service cannot open the DKIM keys of the domain. Its mail waits (see `advice`). */
  can_sign: boolean;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** TLS mode of emails that do not set it. `enforced` sends only to mail servers with a valid TLS certificate. Other recipients are retried, and fail when the email expires. */
  tls: 'opportunistic' | 'enforced';
  /** Tracking of opens and clicks in emails that do not set it. */
  tracking: {
    opens: boolean;
    clicks: boolean;
  };
  /** Time of creation. */
  created_at: string;
  /** Time at which the domain last became verified, or null before. */
  verified_at: string | null;
  /** Time of the last DNS check, or null before the first. */
  checked_at: string | null;
  /** Time of the first check that missed a required record of a verified domain, or null when none is missing. */
  failing_since: string | null;
  /** DKIM keys of the domain. */
  dkim: {
    /** Selector of the RSA key that signs. */
    selector: string;
    /** Time since which the key signs. */
    since: string;
    /** Next key. It signs as soon as a check finds its record. Null when no rotation is in progress. */
    next: {
      selector: string;
      /** Time of creation. */
      since: string;
    } | null;
    /** Previous key. It signed mail that may still be in transit. Null after `keep_until`. */
    previous: {
      selector: string;
      /** Time of replacement. */
      until: string;
      /** End of the period in which its record must stay published. */
      keep_until: string;
    } | null;
  };
  records: DomainRecord[];
  advice: Array<{
    about: 'dkim' | 'dmarc' | 'ptr' | 'replies' | 'mta_sts' | 'inbound' | 'reputation';
    message: string;
  }>;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  /** Number of recipients that wait for mail of this domain. Absent without `waiting=true` in the query. */
  waiting?: number | undefined;
};

export type DomainChange = {
  /** TLS mode of emails that do not set it. `enforced` sends only to mail servers with a valid TLS certificate. Other recipients are retried, and fail when the email expires. */
  tls?: 'opportunistic' | 'enforced' | undefined;
  /** Tracking of opens and clicks in emails that do not set it. Absent fields do not change. */
  tracking?: {
    opens?: boolean | undefined;
    clicks?: boolean | undefined;
  } | undefined;
};

export type DomainCreation = {
  /** Name of the domain. A subdomain is a separate domain. */
  name: string;
  /** TLS mode of emails that do not set it. `enforced` sends only to mail servers with a valid TLS certificate. Other recipients are retried, and fail when the email expires. */
  tls?: 'opportunistic' | 'enforced' | undefined;
  /** Existing RSA key to sign with. It is never returned. Without it, the service generates a key. */
  dkim?: {
    /** Selector: the part of the record name before `._domainkey`. */
    selector: string;
    /** RSA key of 1024 to 4096 bits in PEM (PKCS#8 or PKCS#1), without a passphrase. */
    private_key: string;
  } | undefined;
};

export type DomainList = {
  object: 'list';
  data: Domain[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type DomainPublication = {
  object: 'domain_publication';
  /** The domain. */
  domain_id: string;
  /** Name of the provider. */
  provider: string;
  /** The zone of the domain. */
  zone: string;
  /** Number of records that were added now. */
  added: number;
  /** Records that DNS did not have at the last check, and what is done with each. */
  records: Array<{
    purpose: 'DKIM' | 'SPF' | 'MX' | 'DMARC';
    type: 'TXT' | 'MX' | 'A' | 'AAAA' | 'CNAME';
    name: string;
    value: string;
    /** TTL in seconds. */
    ttl: number;
    /** `present`: the zone has it. `blocked`: a record of others is in the way. */
    action: 'present' | 'add' | 'blocked';
    /** What blocks the record and what to do, or null. */
    problem: string | null;
  }>;
};

export type DomainPublicationWrite = {
  /** Only returns what would be added. */
  dry_run?: boolean | undefined;
};

/** A DNS record to publish, with the records that DNS has. */
export type DomainRecord = {
  /** Purpose of the record. */
  record: 'DKIM' | 'SPF' | 'MX';
  type: 'TXT' | 'MX';
  /** Full name of the record. Some DNS panels require the name without the domain. */
  name: string;
  value: string;
  /** Suggested TTL in seconds. */
  ttl: number;
  /** Priority of an MX record. Absent for TXT records. */
  priority?: number | undefined;
  /** True when the domain cannot be verified without this record. */
  required: boolean;
  status: 'not_started' | 'verified' | 'missing' | 'mismatch' | 'dns_error';
  /** Records that DNS has at this name. */
  found: string[];
  /** What is wrong and what to do, or null when the record is correct. */
  problem: string | null;
  /** Generation of a DKIM key during a rotation. `next` keys will sign, and `previous` keys signed before. */
  key?: 'next' | 'previous' | undefined;
};

export type DryRun = {
  object: 'dry_run';
  /** Predicted outcome. `hold`: the sending domain is paused. `replay`: the Idempotency-Key was used for the same email, and nothing would be sent. */
  outcome: 'send' | 'schedule' | 'hold' | 'replay';
  /** Email that was sent with the Idempotency-Key, or null without one. */
  replay_of: string | null;
  /** Time at which the email would be sent, or null for at once. */
  scheduled_at: string | null;
  limit: {
    counts: 'emails' | 'recipients';
    limit: number;
    /** Number left in this window. This email is not counted. */
    remaining: number;
    /** Seconds until the window ends. */
    reset: number;
    /** Length of the window in seconds. */
    window: number;
  };
  /** Tracking that would apply, of the email or its domain, or null for a replay. */
  tracking: {
    opens: boolean;
    clicks: boolean;
  } | null;
  /** Message that would be sent, or null for a replay. */
  message: {
    /** Size of the message with all signatures, in bytes. */
    size: number;
    /** Headers in the order of the message, unfolded. */
    headers: Array<{
      name: string;
      value: string;
    }>;
  } | null;
  sender: {
    domain: string;
    /** One entry for each signature of the message. */
    dkim: Array<{
      domain: string;
      selector: string;
      algorithm: 'rsa-sha256' | 'ed25519-sha256';
      /** Result of the check. `unknown`: DNS did not answer, and `problem` has the reason. */
      verdict: 'pass' | 'fail' | 'unknown';
      /** True when the domain is aligned with the domain of `from` for DMARC. */
      aligned: boolean;
      /** One sentence about the problem or the unknown result, or null without a problem. */
      problem: string | null;
    }>;
    spf: {
      /** Domain of the return path. */
      domain: string;
      /** Result of the check. `unknown`: DNS did not answer, and `problem` has the reason. */
      verdict: 'pass' | 'fail' | 'unknown';
      /** True when the domain is aligned with the domain of `from` for DMARC. */
      aligned: boolean;
      /** One sentence about the problem or the unknown result, or null without a problem. */
      problem: string | null;
    };
    dmarc: {
      /** Domain whose DMARC record applies, or null without a valid record. */
      domain: string | null;
      policy: 'none' | 'quarantine' | 'reject' | null;
      /** Result of the check. `none`: DNS has no valid record. `unknown`: DNS did not answer. */
      verdict: 'pass' | 'fail' | 'none' | 'unknown';
      /** One sentence about the problem or the unknown result, or null without a problem. */
      problem: string | null;
    };
  } | null;
  recipients: Array<{
    address: string;
    kind: 'to' | 'cc' | 'bcc';
    outcome: 'attempt' | 'suppressed';
    suppression: {
      reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
      /** Time of expiry, or null when the suppression does not expire. */
      expires_at: string | null;
    } | null;
    /** Route to the recipient, or null for a suppressed recipient. */
    route: MailRoute | null;
  }>;
  /** Advice about the email. It does not prevent acceptance. */
  lint: Array<{
    /** Stable code of the finding. */
    code: 'no_text_part' | 'clipped_by_gmail' | 'http_links' | 'image_only' | 'no_unsubscribe';
    /** One sentence about the likely problem. */
    message: string;
  }>;
};

/** An email. Its status is the most active recipient status while any recipient is open, and then the worst outcome. */
export type Email = {
  object: 'email';
  /** The email. */
  id: string;
  /** Message-ID header, with its angle brackets. */
  message_id: string;
  from: string;
  to: string[];
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string;
  status: EmailStatus;
  last_event: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow';
  /** Time of acceptance. */
  created_at: string;
  /** Scheduled time of sending, or null for at once. */
  scheduled_at: string | null;
  /** Time at which the first recipient received the email, or null before. */
  sent_at: string | null;
  /** Time at which the last recipient reached its final status, or null before. */
  completed_at: string | null;
  tags: Array<{
    name: string;
    value: string;
  }>;
  metadata: Record<string, string>;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** HTML of the email. Null without html, and after the retention of content. */
  html: string | null;
  /** Text of the email. Null when it is derived from the html, and after the retention of content. Empty when the email has no text. */
  text: string | null;
  /** Tracking of the email or its domain. Both fields are false after the retention of content. */
  tracking: {
    opens: boolean;
    clicks: boolean;
  };
  recipients: Recipient[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type EmailBatchCreation = EmailCreation[];

export type EmailCancellation = {
  object: 'email_cancellation';
  /** The selection in words. */
  selection: string;
  /** Number of scheduled emails that were selected. */
  found: number;
  /** Number of canceled emails. A worker had begun to send the others. */
  canceled: number;
  /** Position to continue from: repeat the request with it as `from`. Null when all matches were searched. */
  next: string | null;
};

export type EmailCancellationRequest = {
  /** Ids of the emails, at most 100. */
  ids?: string[] | undefined;
  /** Search text, as in the list of emails. */
  q?: string | undefined;
  /** Selects all scheduled emails. Always `true`. */
  all?: boolean | undefined;
  /** Selects only emails created before this time, so that emails which you have not counted are not canceled. */
  created_before?: string | undefined;
  /** `next` of the previous response, to continue. */
  from?: string | undefined;
};

export type EmailChange = {
  /** Time of sending: ISO 8601 with an offset, up to 30 days ahead. A time in the past sends the email at once. */
  scheduled_at: string;
};

export type EmailCounts = {
  object: 'email_counts';
  /** Number of matching emails. */
  total: number;
  /** Number of matching emails by status. */
  statuses: Record<string, number>;
  /** The last searched email, or null when all emails were searched. Older emails are not counted. */
  scanned_until: string | null;
};

export type EmailCreation = {
  /** Address of the sender, with or without a name. Its domain must be verified. */
  from: string;
  /** Recipients: 1 to 50 addresses in `to`, `cc` and `bcc` together. */
  to: string | string[];
  /** Recipients of a copy, shown in the header. */
  cc?: string | string[] | undefined;
  /** Recipients of a copy that other recipients do not see. */
  bcc?: string | string[] | undefined;
  /** Addresses that receive replies. */
  reply_to?: string | string[] | undefined;
  /** Subject of the email. Required unless the `template` has a subject. It overrides the subject of the template. */
  subject?: string | undefined;
  /** HTML of the email. `html`, `text` or `template` is required. */
  html?: string | undefined;
  /** Text of the email. When absent, it is derived from the html. An empty string prevents that. */
  text?: string | undefined;
  /** Additional headers. Headers that the service writes itself are refused. */
  headers?: Record<string, string> | undefined;
  /** Attached files. The whole message may have at most 30 MB. */
  attachments?: Attachment[] | undefined;
  /** Renders subject, html and text from the published version of a template, instead of `html` and `text`. A `subject` of the email replaces that of the template and is not rendered. */
  template?: {
    /** Id or alias of the template. */
    id: string;
    /** Values of the variables, by name. */
    variables?: Record<string, unknown> | undefined;
  } | undefined;
  /** Labels for search, repeated in events. */
  tags?: Array<{
    name: string;
    value: string;
  }> | undefined;
  /** Your own strings, repeated in events. At most 75 names of up to 256 characters, with values of up to 1024 characters. */
  metadata?: Record<string, string> | undefined;
  /** Lifetime of the email in seconds, counted from `scheduled_at` if given. Recipients that have not received the email by then end as `failed` with the reason `expired`. */
  expires_in?: number | undefined;
  /** One-click unsubscribe (RFC 8058): your https URL, or `true` for a page of this service. The page suppresses the recipient. It requires LETTERHAUS_PUBLIC_URL. */
  unsubscribe?: string | boolean | undefined;
  /** TLS mode, which overrides the setting of the domain. With `enforced` the email fails if it cannot be sent encrypted. */
  tls?: 'opportunistic' | 'enforced' | undefined;
  /** Tracking, which overrides the setting of the domain. `opens` adds a pixel to the html. `clicks` redirects its links through LETTERHAUS_TRACKING_URL. Both require html. */
  tracking?: {
    opens?: boolean | undefined;
    clicks?: boolean | undefined;
  } | undefined;
  /** Time of sending: ISO 8601 with an offset, up to 30 days ahead. A time in the past sends the email at once. */
  scheduled_at?: string | undefined;
};

export type EmailInspection = {
  object: 'email_inspection';
  /** The email. */
  id: string;
  /** Size of the sent message in bytes. */
  size: number;
  /** Size of the html in bytes. Gmail clips html above 102 KB. */
  html_size: number;
  /** Headers in the order of the message, unfolded and decoded. */
  headers: Array<{
    name: string;
    value: string;
  }>;
  attachments: Array<{
    /** Number of the attachment in the path of its download. */
    number: number;
    filename: string;
    content_type: string;
    /** Content-ID of an inline attachment, or null. The html refers to it as `cid:<content_id>`. */
    content_id: string | null;
    /** Size of the file in bytes. */
    size: number;
  }>;
  /** Findings, as in `lint` of a dry run, with more findings about the html. */
  checks: Array<{
    /** Stable code of the finding. */
    code: string;
    /** One sentence about the likely problem. */
    message: string;
  }>;
  /** Features of the html that some mail programs do not show. */
  unsupported: Array<{
    feature: string;
    clients: string[];
  }>;
  /** Text part of the message, from the request or derived from its html. */
  text: string | null;
  /** First 100 links of the html, without duplicates. */
  links: string[];
};

export type EmailList = {
  object: 'list';
  data: EmailSummary[];
  /** True when the list continues in this direction. */
  has_more: boolean;
  /** Position of the search, to pass as `after` (or `before`) when the list continues. One call searches at most 50,000 emails with a filter that has no index. */
  scanned_until: string | null;
};

export type EmailPreview = {
  object: 'email_preview';
  /** The email. */
  id: string;
  /** URL of the page with the email. */
  url: string;
  /** Expiry of the link. */
  expires_at: string;
};

export type EmailSharing = {
  /** Lifetime of the link in seconds. The default is 48 hours. */
  expires_in?: number | undefined;
};

/** `scheduled`: Scheduled for later. `queued`: Accepted. Waiting for the first attempt. `sending`: An attempt is in progress. `deferred`: The last attempt failed temporarily. It will be retried. `delivered`: The recipient's mail server accepted it. `sent`: A relay accepted it. What happens next is known only if a bounce or complaint comes back. `bounced`: The receiving side refused it permanently. `failed`: Given up without a permanent reply. `suppressed`: Not attempted: the address is on the suppression list. `canceled`: Canceled before it was sent. `complained`: The recipient reported it as spam. */
export type EmailStatus = 'sending' | 'scheduled' | 'queued' | 'deferred' | 'delivered' | 'sent' | 'canceled' | 'suppressed' | 'failed' | 'bounced' | 'complained';

/** An email without its content and recipients. */
export type EmailSummary = {
  object: 'email';
  /** The email. */
  id: string;
  /** Message-ID header, with its angle brackets. */
  message_id: string;
  from: string;
  to: string[];
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string;
  status: EmailStatus;
  last_event: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow';
  /** Time of acceptance. */
  created_at: string;
  /** Scheduled time of sending, or null for at once. */
  scheduled_at: string | null;
  /** Time at which the first recipient received the email, or null before. */
  sent_at: string | null;
  /** Time at which the last recipient reached its final status, or null before. */
  completed_at: string | null;
  tags: Array<{
    name: string;
    value: string;
  }>;
  metadata: Record<string, string>;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
};

export type EmailWebhookDelivery = {
  object: 'webhook_delivery';
  /** Id of the delivery and its event, as in the `webhook-id` header of every attempt. */
  id: string;
  /** Type of the event. */
  type: string;
  /** Email of the event, or null when it concerns no email. */
  email_id: string | null;
  /** Recipient of the event, or the only recipient of its email, or null. */
  recipient: string | null;
  /** Status of the delivery. It is `pending` until a 2xx response or the last retry. */
  status: 'pending' | 'delivered' | 'failed';
  /** Number of attempts so far. */
  attempts: number;
  /** Time of the event. */
  created_at: string;
  /** Time of the 2xx response or of the last failed attempt, or null while pending. */
  completed_at: string | null;
  /** Due time of the next attempt, or null without one. */
  next_attempt_at: string | null;
  /** The last attempt, or null before the first. */
  last_attempt: {
    /** Time of the attempt. */
    at: string;
    /** HTTP status of the response, or null without a response. */
    status: number | null;
    latency_ms: number;
    /** First 200 characters of the response, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
  } | null;
  /** Webhook of the delivery. */
  webhook_id: string;
  webhook_url: string;
};

export type EmailWebhookDeliveryList = {
  object: 'list';
  data: EmailWebhookDelivery[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type EventList = {
  object: 'list';
  data: StreamEvent[];
  /** True when the list continues in this direction. */
  has_more: boolean;
  /** Position to continue from, even when `data` is empty. Pass it as `after`. */
  cursor: string;
};

/** Body of every failure. */
export type Failure = {
  error: {
    /** Stable code of the error. */
    code: string;
    /** One sentence that says what is wrong and what to do. */
    message: string;
    /** Id of the request, to quote when you report a problem. */
    request_id: string;
    /** Invalid fields, each with its own message. */
    details?: Array<{
      field: string;
      message: string;
    }> | undefined;
  };
};

export type Health = {
  status: 'ok';
};

export type InboundMessage = {
  object: 'inbound_message';
  /** The message. */
  id: string;
  /** Time of arrival. */
  received_at: string;
  /** IP address of the sending client. */
  remote_address: string;
  /** Envelope sender. Empty for a bounce. */
  sender: string;
  /** Envelope recipient. */
  recipient: string;
  kind: 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'unsubscribe' | 'other';
  /** Project of the matching email, or null without a match. */
  project_id: string | null;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test' | null;
  /** Email that the message reports on, or null without a match. */
  email_id: string | null;
  /** Index of the recipient in that email, from 0, or null without a match. */
  position: number | null;
  /** New status of that recipient, or null when it did not change. */
  change: string | null;
  /** Size of the whole message in bytes. */
  size_bytes: number;
};

export type InboundMessageDetail = {
  object: 'inbound_message';
  /** The message. */
  id: string;
  /** Time of arrival. */
  received_at: string;
  /** IP address of the sending client. */
  remote_address: string;
  /** Envelope sender. Empty for a bounce. */
  sender: string;
  /** Envelope recipient. */
  recipient: string;
  kind: 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'unsubscribe' | 'other';
  /** Project of the matching email, or null without a match. */
  project_id: string | null;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test' | null;
  /** Email that the message reports on, or null without a match. */
  email_id: string | null;
  /** Index of the recipient in that email, from 0, or null without a match. */
  position: number | null;
  /** New status of that recipient, or null when it did not change. */
  change: string | null;
  /** Size of the whole message in bytes. */
  size_bytes: number;
  /** Message as received, with its header, at most 256 KB. */
  content: string;
};

export type InboundMessageList = {
  object: 'list';
  data: InboundMessage[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type InstallationHold = {
  object: 'hold';
  /** Time of the restore. */
  since: string;
  /** Time of the backup. */
  backup_taken_at: string | null;
  mail: Array<{
    /** The project. */
    project_id: string;
    /** Name of the project. */
    project: string;
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    /** Recipients that the lost machine may have sent to after the backup. */
    in_doubt: number;
    /** Number of recipients that the lost machine cannot have sent to. */
    unsent: number;
    /** Number of recipients on hold in the queue. A release does not send to them. */
    held: number;
  }>;
  /** Number of pending webhook deliveries. */
  webhooks: number;
  /** Recipients that the lost machine may have sent to after the backup. At most the oldest 10,000. */
  in_doubt: Array<{
    /** The email. */
    email_id: string;
    /** Address of the recipient. */
    to: string;
    /** Due time of the delivery. */
    due_at: string;
    /** Number of attempts before the backup. */
    attempts: number;
  }>;
};

export type InstallationProject = {
  object: 'project';
  /** The project. */
  id: string;
  name: string;
  /** Time of creation. */
  created_at: string;
  reputation_alert: {
    /** True when alerts are on. */
    on: boolean;
    /** Share of bounces among recipients that ended in 24 hours. */
    bounces: string;
    /** Share of complaints among recipients that ended in 24 hours. */
    complaints: string;
    /** Minimum number of ended recipients for an alert. */
    min: number;
    /** True when new mail of a domain above a threshold is put on hold. */
    pause: boolean;
  };
  warnings: Array<{
    about: 'reputation';
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    /** The sending domain. */
    domain: string;
    kind: 'bounce' | 'complaint';
    /** Current share. */
    rate: string;
    /** Threshold of the project. */
    threshold: string;
    /** Number of bounces or complaints. */
    count: number;
    /** Number of recipients that ended in 24 hours. */
    ended: number;
    /** Time at which the share exceeded the threshold. */
    since: string;
    /** True when the mail of the domain is on hold. */
    paused: boolean;
    /** One sentence that says what is wrong and what to do. */
    message: string;
  }>;
  storage: {
    /** Bytes of stored and scheduled emails. */
    used_bytes: number;
    /** Maximum in bytes, or null without one. */
    max_bytes: number | null;
  };
};

export type InstallationProjectList = {
  object: 'list';
  data: InstallationProject[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type InstallationRelease = {
  object: 'release';
  /** Number of recipients that are sent now. */
  released: number;
  /** Number of recipients in doubt that stay on hold in the queue. */
  held_back: number;
};

export type InstallationReleaseRequest = {
  /** True to keep recipients in doubt on hold in the queue, where you release or drop them. */
  except_in_doubt?: boolean | undefined;
};

export type InstallationStatus = {
  object: 'status';
  /** Version of Letterhaus. */
  version: string;
  /** Reasons why no mail is accepted or sent. Empty when there are none. */
  unready: Array<{
    code: 'database_unavailable' | 'database_read_only' | 'database_full' | 'disk_full' | 'clock' | 'schema' | 'secret_key' | 'overloaded' | 'shutting_down';
    message: string;
  }>;
  /** Problems that do not prevent service. */
  warnings: string[];
  /** True for a restored installation before its release. It sends no mail. */
  on_hold: boolean;
  /** Machines with workers. A killed machine is listed for 15 more seconds. */
  nodes: Array<{
    host: string;
    version: string | null;
    workers: number;
  }>;
  queue: {
    /** Number of recipients that have not ended. Above 100,000 it is an estimate. */
    waiting: number;
    /** Number of waiting recipients that are due and not claimed by a worker. */
    due: number;
    /** Number of waiting recipients on hold. */
    held: number;
    /** Seconds that the oldest due recipient has waited. */
    oldest_s: number;
  };
  /** True when the daily reconciliation found no difference, or only acknowledged ones. */
  is_accounted_for: boolean;
  /** Open conditions, at most the newest 1,000. */
  conditions: OperatorCondition[];
  /** Backups of this installation, or null when the service makes none. */
  backup: {
    /** Place where the service stores backups. */
    to: string;
    /** Name of the newest backup, or null before the first. */
    newest: string | null;
    /** Age of the newest backup in seconds, or null before the first. */
    age_seconds: number | null;
    /** Reason why the backups cannot be listed, or null when they can. */
    problem: string | null;
  } | null;
};

export type Invitation = {
  object: 'invitation';
  /** The invitation. */
  id: string;
  /** Email address for signing in. */
  email: string;
  /** Role of the member. Each role includes those after it. */
  role: 'owner' | 'admin' | 'developer' | 'viewer';
  /** The projects in which the member has a role, or null: the role of the organization holds in all projects. */
  projects: Array<{
    /** The project. */
    id: string;
    /** Role in this project. */
    role: 'admin' | 'developer' | 'viewer';
  }> | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry. */
  expires_at: string;
};

export type InvitationAcceptance = {
  /** Token of the link: the part after `=`. */
  token: string;
  /** Display name of the member. */
  name: string;
  /** New password of at least 10 characters. */
  password: string;
};

export type InvitationCreation = {
  /** Email address for signing in. */
  email: string;
  /** Role of the member. Each role includes those after it. */
  role?: 'owner' | 'admin' | 'developer' | 'viewer' | undefined;
  /** The projects in which the member has a role, or null: the role of the organization holds in all projects. */
  projects?: Array<{
    /** The project. */
    id: string;
    /** Role in this project. */
    role: 'admin' | 'developer' | 'viewer';
  }> | null | undefined;
};

export type InvitationList = {
  object: 'list';
  data: Invitation[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type InvitationWithLink = {
  object: 'invitation';
  /** The invitation. */
  id: string;
  /** Email address for signing in. */
  email: string;
  /** Role of the member. Each role includes those after it. */
  role: 'owner' | 'admin' | 'developer' | 'viewer';
  /** The projects in which the member has a role, or null: the role of the organization holds in all projects. */
  projects: Array<{
    /** The project. */
    id: string;
    /** Role in this project. */
    role: 'admin' | 'developer' | 'viewer';
  }> | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry. */
  expires_at: string;
  /** Link to accept the invitation. It is returned only here. */
  url: string;
  /** True when the service mails the link to the address. */
  mailed: boolean;
};

export type LastReply = {
  /** The email. */
  email_id: string;
  status: EmailStatus;
  /** Provider of the address, as named in the queue, or null when it is unknown. */
  provider: string | null;
  /** Time of the final status, or null before. */
  completed_at: string | null;
  reason: Reason | null;
  smtp: SmtpAnswer;
};

export type Limit = {
  /** Category of `letterhaus projects set-limit --category`. `dry_runs` has the limit of `sending`. */
  category: 'sending' | 'recipients' | 'dry_runs' | 'domains' | 'verification' | 'webhooks';
  /** Unit that the limit counts. */
  counts: string;
  /** Maximum per window. */
  limit: number;
  /** Length of a window, in seconds. */
  window_s: number;
  /** Requests or recipients left in this window. */
  remaining: number;
  /** Seconds until the window ends. */
  reset_s: number;
  /** True when the limit was set for this project. */
  is_own: boolean;
  /** Variable with the default for all projects. */
  variable: string;
};

export type Limits = {
  object: 'limits';
  /** Rate limits. `recipients` is included only if that limit is set. */
  limits: Limit[];
  domains: {
    /** Maximum number of domains in each environment. */
    max: number;
    /** Number of domains in this environment. */
    used: number;
  };
  /** Stored mail and its maximum. Emails above the maximum are refused with 409 `conflict`. */
  storage: {
    /** Maximum in bytes, or null without one. */
    max_bytes: number | null;
    /** Bytes of stored and scheduled emails of both environments, with their recipients. */
    used_bytes: number;
  };
  retention: {
    /** Retention of html, text and attachments in hours, or null without a limit. */
    content_hours: number | null;
    /** Retention of emails and their timeline in hours, or null without a limit. */
    metadata_hours: number | null;
  };
  /** Shares of the recipients of 24 hours above which a reputation alert is raised. */
  reputation: {
    /** True when alerts are raised for this project. */
    on: boolean;
    /** Share of bounces. */
    bounces: number;
    /** Share of complaints. */
    complaints: number;
    /** Number of recipients of 24 hours below which no alert is raised. */
    min: number;
    /** True when an alert puts new mail of the domain on hold. */
    pauses: boolean;
  };
};

export type MailRoute = {
  /** Result of the look-up. `none`: the domain accepts no mail. `unknown`: DNS did not answer. */
  verdict: 'found' | 'none' | 'unknown';
  /** Provider whose limits apply. */
  provider: string | null;
  /** Mail servers in the order of the attempts. */
  mx: Array<{
    host: string;
    preference: number;
    addresses: string[];
    tls: {
      /** TLS mode. `barred`: nothing is sent to this server. `none`: the server is the simulator. */
      mode: string;
      /** TLS rule that applies. */
      policy: string;
      /** One sentence about the problem or the unknown result, or null without a problem. */
      problem: string | null;
    };
  }>;
  /** One sentence about the problem or the unknown result, or null without a problem. */
  problem: string | null;
};

export type Member = {
  object: 'member';
  /** The member. */
  id: string;
  /** Email address for signing in. */
  email: string;
  /** Display name of the member. */
  name: string;
  /** Role of the member. Each role includes those after it. */
  role: 'owner' | 'admin' | 'developer' | 'viewer';
  /** The projects in which the member has a role, or null: the role of the organization holds in all projects. */
  projects: Array<{
    /** The project. */
    id: string;
    /** Role in this project. */
    role: 'admin' | 'developer' | 'viewer';
  }> | null;
  /** Time of joining the organization. */
  created_at: string;
  /** Time of the last sign-in, or null before the first. */
  last_signed_in_at: string | null;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type MemberChange = {
  /** Role of the member. Each role includes those after it. */
  role?: 'owner' | 'admin' | 'developer' | 'viewer' | undefined;
  /** The projects in which the member has a role, or null: the role of the organization holds in all projects. */
  projects?: Array<{
    /** The project. */
    id: string;
    /** Role in this project. */
    role: 'admin' | 'developer' | 'viewer';
  }> | null | undefined;
};

export type MemberList = {
  object: 'list';
  data: Member[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type OidcResponse = {
  /** Query with which the provider opened /auth/oidc/callback. */
  response: string;
  /** Code from the authenticator app, or a recovery code. */
  code?: string | undefined;
};

export type OidcSignInBegun = {
  object: 'oidc_sign_in';
  /** URL of the identity provider, for this browser only. */
  url: string;
};

export type OperatorCondition = {
  object: 'condition';
  type: 'provider.blocked' | 'domain.degraded' | 'webhook.disabled' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow';
  /** Object of the condition, for example a host. It depends on the type. */
  subject: string;
  /** One sentence that says what is wrong. */
  message: string;
  /** One sentence that says what to do. */
  remedy: string;
  /** Details of the condition. The fields depend on the type. */
  details: Record<string, unknown>;
  /** Start of the condition. */
  since: string;
  /** Time of the latest report of the condition. */
  last_seen: string;
};

export type OperatorConditionList = {
  object: 'list';
  data: OperatorCondition[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type OwnSession = {
  object: 'session';
  /** The session. */
  id: string;
  /** True for the session of this request. */
  is_current: boolean;
  /** Network of the sign-in. */
  network: string;
  /** User agent of the browser. */
  user_agent: string | null;
  /** Time of the sign-in. */
  created_at: string;
  /** Time of the last use, to the minute. */
  last_used_at: string;
};

export type OwnSessionList = {
  object: 'list';
  data: OwnSession[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type OwnerCreation = {
  /** Token of the link: the part after `=`. */
  token: string;
  /** Email address for signing in. */
  email: string;
  /** Display name of the member. */
  name: string;
  /** New password of at least 10 characters. */
  password: string;
};

export type Passkey = {
  object: 'passkey';
  /** The passkey. */
  id: string;
  /** Your name for it. */
  name: string;
  /** Time of creation. */
  created_at: string;
  /** Time of the last sign-in with it, or null before the first. */
  last_used_at: string | null;
};

export type PasskeyAddition = {
  /** Your name for it. */
  name: string;
  /** `clientDataJSON`. In base64url. */
  client_data: string;
  /** `authenticatorData`. In base64url. */
  authenticator_data: string;
  /** `getPublicKey()`: SubjectPublicKeyInfo. In base64url. */
  public_key: string;
  /** `getPublicKeyAlgorithm()`. */
  algorithm: number;
};

export type PasskeyCreation = {
  object: 'passkey_creation';
  /** Challenge to sign. In base64url. */
  challenge: string;
  /** Host that the passkey belongs to. */
  host: string;
  /** Id of the member for the authenticator. In base64url. */
  user_id: string;
  /** Address of the member. */
  user_email: string;
  /** Name of the member. */
  user_name: string;
  /** COSE numbers of the algorithms, best first. */
  algorithms: number[];
  /** Ids of the credentials that you have already, in base64url. */
  known_credential_ids: string[];
};

export type PasskeyList = {
  object: 'list';
  data: Passkey[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type PasskeyRequest = {
  object: 'passkey_request';
  /** Challenge to sign. In base64url. */
  challenge: string;
  /** Host that the passkey belongs to. */
  host: string;
};

export type PasskeyResponse = {
  /** `rawId`. In base64url. */
  credential_id: string;
  /** `clientDataJSON`. In base64url. */
  client_data: string;
  /** `authenticatorData`. In base64url. */
  authenticator_data: string;
  /** `signature`. In base64url. */
  signature: string;
};

export type PasswordChange = {
  /** Your current password. */
  current_password: string;
  /** New password of at least 10 characters. */
  password: string;
};

export type PasswordChanged = {
  object: 'password';
  /** Always `true`. */
  changed: boolean;
};

export type PasswordConfirmation = {
  /** Your password. A member without one leaves it out within 15 minutes of signing in. */
  password?: string | undefined;
};

export type PasswordReset = {
  /** Token of the link: the part after `=`. */
  token: string;
  /** New password of at least 10 characters. */
  password: string;
};

export type Project = {
  object: 'project';
  /** The project. */
  id: string;
  name: string;
  /** Time of creation. */
  created_at: string;
  /** Warnings for the project and environment of the key. */
  warnings: Array<{
    about: 'reputation';
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    /** The sending domain. */
    domain: string;
    message: string;
  }>;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type ProjectList = {
  object: 'list';
  data: Project[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type ProjectResumeRequest = {
  /** `next` of the previous response, to continue in a long queue. */
  from?: string | undefined;
};

export type ProjectResumed = {
  object: 'project_resumed';
  /** Domains whose pause has ended. */
  domains: string[];
  /** Number of released recipients. */
  released: number;
  /** Position to continue from, or null when all mail is released. */
  next: string | null;
};

export type ProjectSettings = {
  object: 'project_settings';
  /** The project. */
  project_id: string;
  name: string;
  limits: Array<{
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    category: 'sending' | 'recipients' | 'verification' | 'domains' | 'webhooks';
    limit: {
      /** Maximum per window. */
      max: number;
      /** Length of a window, in seconds. */
      window_s: number;
    };
    /** True when the limit was set for this project. */
    is_own: boolean;
  }>;
  /** Maximum number of domains in each environment. */
  domains_max: number;
  storage: {
    /** Bytes of stored and scheduled emails. */
    used_bytes: number;
    /** Maximum in bytes, or null without one. */
    max_bytes: number | null;
  };
  /** The project's retention of html, text and attachments, or null for the default. */
  content: string | null;
  /** The project's retention of emails and their timeline, or null for the default. */
  metadata: string | null;
  /** Retention in effect. */
  kept: {
    /** Retention of content, or `ever` without a limit. */
    content: string;
    /** Retention of metadata, or `ever` without a limit. */
    metadata: string;
  };
  reputation_alert: {
    /** True when alerts are on. */
    on: boolean;
    /** Share of bounces among recipients that ended in 24 hours. */
    bounces: string;
    /** Share of complaints among recipients that ended in 24 hours. */
    complaints: string;
    /** Minimum number of ended recipients for an alert. */
    min: number;
    /** True when new mail of a domain above a threshold is put on hold. */
    pause: boolean;
  };
  /** Domains above a threshold. */
  warnings: Array<{
    about: 'reputation';
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    /** The sending domain. */
    domain: string;
    kind: 'bounce' | 'complaint';
    /** Current share. */
    rate: string;
    /** Threshold of the project. */
    threshold: string;
    /** Number of bounces or complaints. */
    count: number;
    /** Number of recipients that ended in 24 hours. */
    ended: number;
    /** Time at which the share exceeded the threshold. */
    since: string;
    /** True when the mail of the domain is on hold. */
    paused: boolean;
    /** One sentence that says what is wrong and what to do. */
    message: string;
  }>;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type ProjectSettingsChange = {
  /** Rate limits to set. Null restores the default. */
  limits?: Array<{
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    category: 'sending' | 'recipients' | 'verification' | 'domains' | 'webhooks';
    limit: {
      /** Maximum per window. */
      max: number;
      /** Length of a window, in seconds. */
      window_s: number;
    } | null;
  }> | undefined;
  domains_max?: number | null | undefined;
  /** Maximum of stored mail in bytes, at least 32 MB. Null restores the default. */
  storage_max_bytes?: number | null | undefined;
  /** Retention of html, text and attachments. Null restores the default. */
  content?: string | null | undefined;
  /** Retention of emails and their timeline. Null restores the default. */
  metadata?: string | null | undefined;
  /** Reputation alert. Null fields restore the default. */
  reputation_alert?: {
    on?: boolean | undefined;
    /** Share of bounces among recipients that ended in 24 hours. */
    bounces?: string | null | undefined;
    /** Share of complaints among recipients that ended in 24 hours. */
    complaints?: string | null | undefined;
    min?: number | null | undefined;
    pause?: boolean | undefined;
  } | undefined;
};

export type ProjectWrite = {
  /** Display name of the project. */
  name: string;
};

export type ProviderBlock = {
  object: 'provider_block';
  /** Name of the provider, as in the list and in the queue. */
  provider: string;
  /** Subject of the block. `address`: the provider refuses an address of this service. `domain`: the provider refuses a sending domain. */
  about: 'address' | 'domain';
  /** Refused address or domain. */
  subject: string;
  /** Start of the block. */
  since: string | null;
  /** Number of refusals since the last delivery to the provider. */
  refusals: number;
  /** Refused sending domains, at most 100. */
  sending_domains: string[];
  /** Category of the refusal, as in the email. */
  category: string;
  /** Last reply that refused a message. */
  reply: string;
  /** Page on which the operator can request delisting, or null when none is known. */
  delisting_page: string | null;
  /** Seconds until the next probe, or null while a message is the probe. */
  next_probe_in_s: number | null;
};

export type ProviderBlockList = {
  object: 'list';
  data: ProviderBlock[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type ProviderProbe = {
  object: 'provider_probe';
  /** Name of the provider, as in the list and in the queue. */
  provider: string;
  /** Number of blocks that the probe tests. */
  blocks: number;
  /** Number of waiting recipients that are due now. With 0, the next message is the probe. */
  due: number;
};

export type Queue = {
  object: 'queue';
  /** Time of the count. */
  measured_at: string;
  /** True when the counts are estimated from a sample, above about 100,000 waiting recipients. */
  is_estimate: boolean;
  /** Number of recipients that have not ended. */
  waiting: number;
  /** Number of waiting recipients in the memory of workers. */
  with_workers: number;
  /** Number of waiting recipients that are due and not claimed. */
  due: number;
  /** Number of waiting recipients on hold. */
  held: number;
  /** Due time of the oldest due recipient, or null when none is due. */
  oldest_due_at: string | null;
  /** Earliest due time of a recipient not on hold, possibly in the past, or null without such a recipient. */
  next_due_at: string | null;
  /** Providers with the most mail first, at most 100. */
  providers: Array<{
    /** Operator of the mail servers, or the domain until its mail servers are known. */
    provider: string;
    /** Number of recipients that have not ended. */
    waiting: number;
    /** Number of waiting recipients in the memory of workers. */
    with_workers: number;
    /** Number of waiting recipients that are due and not claimed. */
    due: number;
    /** Number of waiting recipients on hold. */
    held: number;
    /** Due time of the oldest due recipient, or null when none is due. */
    oldest_due_at: string | null;
    /** Earliest due time of a recipient not on hold, possibly in the past, or null without such a recipient. */
    next_due_at: string | null;
    /** State that workers reported a few seconds ago. `full`: all permitted connections are in use, or all messages of the configured rate. `slowed`: the provider asked for less mail. `suspended`: its servers open no session, or refuse us. Null when no worker reported a state. */
    state: 'open' | 'full' | 'slowed' | 'suspended' | null;
    /** End of the suspension or slowdown, or null without one. */
    state_until: string | null;
    /** Number of open connections to the provider, for mail of all projects, or null when not reported. */
    connections: number | null;
    /** Number of permitted connections now, or null when not reported. */
    connections_max: number | null;
    /** Why mail is on hold, from a sample. `operator`: somebody put it on hold. `pause`: its sending domain is paused. Empty when no mail is on hold. */
    held_by: Array<'operator' | 'pause'>;
    /** Paused sending domains of the mail on hold. */
    paused_domains: string[];
    /** Limit that applies, or null when no mail waits. */
    limit: {
      /** Name of the limit. `hold`: all mail is on hold. `suspension`, `rate`, `connections`: limits of the provider. `attempt`: workers deliver the mail. `retry`: the next attempt is not due. `turn`: other mail is served first. */
      name: 'hold' | 'suspension' | 'rate' | 'connections' | 'attempt' | 'retry' | 'turn';
      /** One sentence about the limit, with its figure. */
      message: string;
      /** Setting that causes the limit, or null without one. */
      setting: {
        /** Name of the setting in the file of LETTERHAUS_SHAPING. */
        name: string;
        /** Value of the setting, or null without a limit. */
        value: number | null;
        /** Source of the value. `built_in`: default for all providers. `built_in_provider`: default for this provider. `file` and `file_provider`: set in the file of LETTERHAUS_SHAPING, for all providers or for this one. */
        source: 'built_in' | 'built_in_provider' | 'file' | 'file_provider';
        /** Place of the setting in the file of LETTERHAUS_SHAPING, even if the file does not have it. */
        path: string;
      } | null;
    } | null;
  }>;
  /** True when mail waits for more providers. */
  has_more: boolean;
  /** Waiting mail by project. A session sees all projects of the organization, a key only its own. */
  projects: Array<{
    /** The project. */
    project_id: string;
    name: string;
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    /** Number of recipients that have not ended. */
    waiting: number;
    /** Number of waiting recipients in the memory of workers. */
    with_workers: number;
    /** Number of waiting recipients that are due and not claimed. */
    due: number;
    /** Number of waiting recipients on hold. */
    held: number;
    /** Due time of the oldest due recipient, or null when none is due. */
    oldest_due_at: string | null;
    /** Earliest due time of a recipient not on hold, possibly in the past, or null without such a recipient. */
    next_due_at: string | null;
  }>;
  /** Drops that can still be undone, newest first. */
  drops: QueueDrop[];
};

export type QueueChange = {
  object: 'queue_change';
  change: 'hold' | 'release' | 'retry';
  selection: string;
  /** Number of matching recipients. */
  found: number;
  /** Number of matching recipients that a worker has claimed. */
  busy: number;
  /** Number of changed recipients. */
  changed: number;
  /** Position to continue from: repeat the request with it as `from`. Null when the whole queue was searched. */
  next: string | null;
};

export type QueueChangeRequest = {
  /** Selects the recipients of this email. */
  email_id?: string | undefined;
  /** Selects recipients at this domain. */
  domain?: string | undefined;
  /** Selects mail to this provider, as named in the queue. */
  provider?: string | undefined;
  /** Selects all mail in the scope. Cannot be combined with the other selectors. Always `true`. */
  all?: boolean | undefined;
  /** Scope of the request. `project`: the project and environment of the caller. `organization`: all projects in both environments, for members only. */
  scope?: 'project' | 'organization' | undefined;
  /** `next` of the previous response, to continue in a long queue. */
  from?: string | undefined;
};

export type QueueDrop = {
  object: 'queue_drop';
  /** The drop. */
  id: string;
  /** Selection of recipients. */
  selection: string;
  /** Number of matching recipients found so far. */
  found: number;
  /** Number of matching recipients that a worker has claimed. They are not dropped. */
  busy: number;
  /** Number of matching recipients that are on hold now and will be dropped. */
  changed: number;
  /** True when the whole queue was searched. Otherwise the rest follows. */
  is_complete: boolean;
  /** Time of the request. */
  created_at: string;
  /** End of the minute in which the drop can be undone. */
  drops_at: string;
  /** Time of the undo, or null without one. */
  undone_at: string | null;
};

export type QueueProvider = {
  object: 'queue_provider';
  /** Time of the count. */
  measured_at: string;
  is_estimate: boolean;
  /** Operator of the mail servers, or the domain until its mail servers are known. */
  provider: string;
  /** Number of recipients that have not ended. */
  waiting: number;
  /** Number of waiting recipients in the memory of workers. */
  with_workers: number;
  /** Number of waiting recipients that are due and not claimed. */
  due: number;
  /** Number of waiting recipients on hold. */
  held: number;
  /** Due time of the oldest due recipient, or null when none is due. */
  oldest_due_at: string | null;
  /** Earliest due time of a recipient not on hold, possibly in the past, or null without such a recipient. */
  next_due_at: string | null;
  /** State that workers reported a few seconds ago. `full`: all permitted connections are in use, or all messages of the configured rate. `slowed`: the provider asked for less mail. `suspended`: its servers open no session, or refuse us. Null when no worker reported a state. */
  state: 'open' | 'full' | 'slowed' | 'suspended' | null;
  /** End of the suspension or slowdown, or null without one. */
  state_until: string | null;
  /** Number of open connections to the provider, for mail of all projects, or null when not reported. */
  connections: number | null;
  /** Number of permitted connections now, or null when not reported. */
  connections_max: number | null;
  /** Why mail is on hold, from a sample. `operator`: somebody put it on hold. `pause`: its sending domain is paused. Empty when no mail is on hold. */
  held_by: Array<'operator' | 'pause'>;
  /** Paused sending domains of the mail on hold. */
  paused_domains: string[];
  /** Limit that applies, or null when no mail waits. */
  limit: {
    /** Name of the limit. `hold`: all mail is on hold. `suspension`, `rate`, `connections`: limits of the provider. `attempt`: workers deliver the mail. `retry`: the next attempt is not due. `turn`: other mail is served first. */
    name: 'hold' | 'suspension' | 'rate' | 'connections' | 'attempt' | 'retry' | 'turn';
    /** One sentence about the limit, with its figure. */
    message: string;
    /** Setting that causes the limit, or null without one. */
    setting: {
      /** Name of the setting in the file of LETTERHAUS_SHAPING. */
      name: string;
      /** Value of the setting, or null without a limit. */
      value: number | null;
      /** Source of the value. `built_in`: default for all providers. `built_in_provider`: default for this provider. `file` and `file_provider`: set in the file of LETTERHAUS_SHAPING, for all providers or for this one. */
      source: 'built_in' | 'built_in_provider' | 'file' | 'file_provider';
      /** Place of the setting in the file of LETTERHAUS_SHAPING, even if the file does not have it. */
      path: string;
    } | null;
  } | null;
  /** Settings in effect. Empty for test mail, which is simulated. */
  settings: Array<{
    /** Name of the setting in the file of LETTERHAUS_SHAPING. */
    name: string;
    /** Value of the setting, or null without a limit. */
    value: number | null;
    /** Source of the value. `built_in`: default for all providers. `built_in_provider`: default for this provider. `file` and `file_provider`: set in the file of LETTERHAUS_SHAPING, for all providers or for this one. */
    source: 'built_in' | 'built_in_provider' | 'file' | 'file_provider';
    /** Place of the setting in the file of LETTERHAUS_SHAPING, even if the file does not have it. */
    path: string;
  }>;
  /** Replies to waiting mail of the caller’s project and environment, newest first. */
  answers: Array<{
    /** End of the attempt. */
    at: string;
    /** The email. */
    email_id: string;
    recipient: string;
    /** Number of attempts so far. */
    attempts: number;
    /** Reply code, or null when no server replied. */
    code: number | null;
    enhanced_code: string | null;
    message: string;
    mx: string | null;
    ip: string | null;
  }>;
};

export type QueueSelection = {
  /** Selects the recipients of this email. */
  email_id?: string | undefined;
  /** Selects recipients at this domain. */
  domain?: string | undefined;
  /** Selects mail to this provider, as named in the queue. */
  provider?: string | undefined;
  /** Selects all mail in the scope. Cannot be combined with the other selectors. Always `true`. */
  all?: boolean | undefined;
  /** Scope of the request. `project`: the project and environment of the caller. `organization`: all projects in both environments, for members only. */
  scope?: 'project' | 'organization' | undefined;
};

export type Readiness = {
  status: 'ok';
  /** Problems that do not prevent service. Absent when there are none. */
  warnings?: string[] | undefined;
  /** True for a restored installation before its release. It accepts mail and sends none. Always `true`. */
  on_hold?: boolean | undefined;
};

export type Reason = {
  /** Category of the problem. */
  category: string;
  /** Party that can solve the problem. */
  blame: 'recipient' | 'receiver' | 'sender' | 'us';
  /** One sentence that says what to do. */
  advice: string;
};

/** Key of the installation that signs case files. */
export type ReceiptKey = {
  object: 'receipt_key';
  algorithm: 'Ed25519';
  /** Public key of Ed25519: 32 octets in base64. */
  public_key: string;
  /** SHA-256 of the public key, in base64 without padding, after `SHA256:`. */
  fingerprint: string;
  /** Time at which the key was made. */
  created_at: string;
  /** The public key as PEM. */
  public_key_pem: string;
  /** Earlier keys, for the files that they signed. */
  retired: Array<{
    /** Public key of Ed25519: 32 octets in base64. */
    public_key: string;
    /** SHA-256 of the public key, in base64 without padding, after `SHA256:`. */
    fingerprint: string;
    /** Time at which the key was made. */
    created_at: string;
    /** Time since which it signs nothing. */
    retired_at: string;
  }>;
};

export type Recipient = {
  address: string;
  kind: 'to' | 'cc' | 'bcc';
  status: EmailStatus;
  attempts: number;
  /** Due time of the next attempt, or null without one. */
  next_attempt_at: string | null;
  /** Time of the final status, or null before. */
  completed_at: string | null;
  reason: Reason | null;
  smtp: SmtpAnswer | null;
};

export type RecipientList = {
  object: 'list';
  data: RecipientSummary[];
  /** True when the list continues in this direction. */
  has_more: boolean;
  /** The last email that was read, to pass as `after` when the list continues, even if `data` is empty. One call reads at most 2,000 emails. */
  scanned_until: string | null;
};

export type RecipientLogEntry = {
  /** Time of the entry. */
  at: string;
  /** The project. */
  project_id: string;
  /** Name of the project. */
  project: string;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Email of the entry, or null when no email caused it. */
  email_id: string | null;
  /** Type of the event, or `suppression.added` or `suppression.removed`. */
  type: string;
  /** Reply code of the mail server, or null without a reply. */
  code: number | null;
  /** Enhanced status code of the reply, or null without one. */
  enhanced_code: string | null;
  /** Text of the reply, or null without one. */
  message: string | null;
  /** Host name of the mail server, or null without one. */
  mx: string | null;
  /** Meaning of the reply, from a fixed list. */
  category: string | null;
  /** Party that can solve the problem. */
  blame: string | null;
  /** One sentence that says what to do. */
  advice: string | null;
  /** Reason of the suppression. */
  reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | null;
  /** Actor that changed the suppression. */
  by: string | null;
};

export type RecipientLogList = {
  object: 'list';
  data: RecipientLogEntry[];
  /** True when the list continues in this direction. */
  has_more: boolean;
  /** Address of the recipient. */
  address: string;
  /** Suppression lists with the address now. */
  suppressed: Array<{
    /** The project. */
    project_id: string;
    /** Name of the project. */
    project: string;
    /** Environment. `live` delivers mail. `test` simulates every delivery. */
    environment: 'live' | 'test';
    reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
    /** Time of creation. */
    created_at: string;
    /** Time of expiry, or null when the suppression does not expire. */
    expires_at: string | null;
    /** Email that caused the suppression, or null without one. */
    source_email_id: string | null;
    /** True for an address of the simulator. It still receives mail. */
    simulated: boolean;
  }>;
};

export type RecipientOverview = {
  object: 'recipient';
  /** Address of the recipient. */
  address: string;
  domain: string;
  /** Suppression of the address, or null when it is not suppressed. */
  suppression: Suppression | null;
  /** Additions and removals of the suppression, newest first, at most 100. */
  history: RecipientSuppressionChange[];
  /** Requests of the last week that were refused and named the address, newest first, at most 100. */
  refused_requests: RefusedRequest[];
  /** Last reply or error about the address, or null without one. */
  last_reply: LastReply | null;
};

export type RecipientSummary = {
  object: 'recipient_summary';
  /** Address of the recipient. */
  address: string;
  /** Newest email to the address. */
  last_email_id: string;
  /** Time of the newest email. */
  last_email_at: string;
  /** Status of this recipient in the newest email. */
  last_status: EmailStatus;
  /** Reason of the suppression of the address, or null when it is not suppressed. */
  suppression: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | null;
};

export type RecipientSuppressionChange = {
  action: 'added' | 'removed';
  /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
  reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Email whose reply, report or link caused the suppression, or null without one. */
  source_email_id: string | null;
  /** Time of the change. */
  at: string;
  /** Actor of the change. `delivery` is the reply of a mail server, and `recipient` is the unsubscribe page. */
  by: 'delivery' | 'recipient' | 'api' | 'import' | 'command_line';
  /** Member or key that made the change, or null when the audit log does not have it. */
  actor: {
    type: 'member' | 'api_key' | 'command';
    /** Id of the member or key. */
    id: string | null;
    name: string | null;
  } | null;
};

export type ReconciledDay = {
  object: 'reconciled_day';
  /** Day of acceptance (UTC). */
  day: string;
  /** The project. */
  project_id: string;
  /** Name of the project. */
  project: string;
  /** State of the day. `differs`: a difference is not acknowledged. `removed`: the retention removed its mail before the check. `accounted_for_open`: some recipients have not ended. */
  state: 'differs' | 'acknowledged' | 'not_checked' | 'removed' | 'accounted_for_open' | 'accounted_for';
  /** Time of the check, or null before it. */
  checked_at: string | null;
  emails: number;
  recipients: number;
  /** Number of recipients by status. `open` counts recipients that have not ended. */
  statuses: Record<string, number>;
  differences: Array<{
    kind: 'accepted_differs' | 'outcome_differs' | 'email_missing' | 'recipient_missing' | 'not_queued' | 'queued_after_end' | 'open_count_differs' | 'event_missing' | 'status_unexplained';
    /** One sentence that says what differs. */
    message: string;
    /** One sentence that says what to do. */
    remedy: string;
    /** Number of emails. */
    emails: number;
    /** Examples of these emails. */
    examples: string[];
    /** Counter that differs. */
    counter?: string | undefined;
    /** Value of the counter. */
    counted?: number | undefined;
    /** Number in the stored mail. */
    stored?: number | undefined;
  }>;
  /** Time at which an operator acknowledged the differences, or null. */
  acknowledged_at: string | null;
};

export type ReconciledDayList = {
  object: 'list';
  data: ReconciledDay[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type Reconciliation = {
  object: 'reconciliation';
  /** True when no difference was found, or all are acknowledged. */
  is_accounted_for: boolean;
  /** First of the last 30 days (UTC) that can be checked, or null before the first is over. */
  from: string | null;
  /** Last day (UTC) that is over, or null before the first is over. */
  to: string | null;
  /** Time at which a run last checked all due days, or null before the first. */
  checked_at: string | null;
  /** Number of days of a project with a difference that is not acknowledged. */
  days_differing: number;
  /** Number of days of a project that are due for a check. */
  days_waiting: number;
  /** Number of days of a project whose mail the retention removed before a check. */
  days_removed: number;
  /** Days with a difference that is not acknowledged, at most the newest 100. */
  differences: Array<{
    /** Day of acceptance (UTC). */
    day: string;
    /** The project. */
    project_id: string;
    /** Name of the project. */
    project_name: string;
    differences: Array<{
      kind: 'accepted_differs' | 'outcome_differs' | 'email_missing' | 'recipient_missing' | 'not_queued' | 'queued_after_end' | 'open_count_differs' | 'event_missing' | 'status_unexplained';
      /** One sentence that says what differs. */
      message: string;
      /** One sentence that says what to do. */
      remedy: string;
      /** Examples of these emails. */
      email_ids: string[];
    }>;
  }>;
};

export type ReconciliationAcknowledged = {
  object: 'reconciliation_acknowledged';
  /** The day. */
  day: string;
  projects: string[];
};

export type ReconciliationAcknowledgement = {
  /** Day (UTC). */
  day: string;
  /** Includes only this project. */
  project_id?: string | undefined;
};

export type ReconciliationCheck = {
  object: 'reconciliation_check';
  /** True when all due days were checked. */
  is_complete: boolean;
};

export type ReconciliationCheckRequest = {
  /** Day (UTC). */
  day?: string | undefined;
  /** Includes only this project. */
  project_id?: string | undefined;
  /** True to check every row of the queue, too. */
  walks_queue?: boolean | undefined;
};

export type RecoveryCodes = {
  object: 'recovery_codes';
  /** Recovery codes. Each one works once instead of a code from the app. They are returned only here. */
  recovery_codes: string[];
};

export type RefusedRequest = {
  /** Id of the request. */
  id: string;
  /** Time of the request. */
  created_at: string;
  method: string;
  path: string;
  status: number;
  error: {
    code: string;
    message: string;
  };
};

export type RenderedTemplate = {
  object: 'rendered_template';
  subject: string;
  html: string | null;
  text: string | null;
};

export type RetentionConfirmed = {
  object: 'retention_confirmed';
};

export type RetentionState = {
  object: 'retention';
  /** Retention of html, text and attachments, or `ever` without a limit. */
  content: string;
  /** Retention of emails and their timeline, or `ever` without a limit. */
  metadata: string;
  /** Time of the last check for due mail, or null before the first. */
  ran_at: string | null;
  /** End of the pause of the removal, or null when it is not paused. */
  held_until: string | null;
  /** Seconds by which the database clock moved, negative when it moved back, or null without a pause. */
  clock_moved_s: number | null;
  /** First days of the due weeks that the service removes on a later day. */
  waiting: string[];
};

export type ReturnPathHost = {
  object: 'return_path_host';
  /** Host that receives bounces, or null until a node with a full host name has started. */
  name: string | null;
  /** Host names of the nodes. A domain is also verified when its MX record names one of them. */
  node_names: string[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type ReturnPathHostChange = {
  object: 'return_path_host';
  /** Host that receives bounces, or null until a node with a full host name has started. */
  name: string | null;
  /** Host names of the nodes. A domain is also verified when its MX record names one of them. */
  node_names: string[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  /** Previous host, or null before the first. */
  before: string | null;
  /** Number of verified domains that must publish the new host. */
  verified_domains: number;
};

export type ReturnPathHostWrite = {
  /** Full host name. */
  name: string;
};

export type RotatedApiKey = {
  object: 'api_key';
  /** The id of the key. */
  id: string;
  /** Label of the key. Two keys may have the same label. */
  name: string;
  /** First characters of the key, to recognize it. */
  hint: string;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Permission of the key. A key with `sending_access` may send emails, and read the emails that it sent. */
  permission: 'full_access' | 'sending_access';
  /** The only domain that the key may use, or null for all domains. */
  domain: string | null;
  /** The networks from which the key may be used, over HTTP and SMTP, or null for all. */
  allowed_networks: string[] | null;
  /** The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may send from, or null for all domains of the project. */
  allowed_senders: string[] | null;
  /** The addresses, domains and subdomains that the key may send to, or null for all. */
  allowed_recipients: string[] | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry, or null when the key does not expire. */
  expires_at: string | null;
  /** Time of the last use, to the minute, or null before the first use. */
  last_used_at: string | null;
  /** What prevents the key from sending, such as a domain that the project does not have. */
  warnings: string[];
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  /** The secret key. It is returned only here. */
  key: string;
  replaces: {
    /** The old key. */
    id: string;
    /** Expiry of the old key. */
    expires_at: string;
  };
};

export type Session = {
  object: 'session';
  /** The session. */
  id: string;
  member: {
    /** The member who is signed in. */
    id: string;
    email: string;
    /** Display name of the member. */
    name: string;
    /** Role of the member. Each role includes those after it. */
    role: 'owner' | 'admin' | 'developer' | 'viewer';
    /** False for a member who joined by the identity provider and has set no password. */
    has_password: boolean;
    /** False when the member has roles in some projects of the organization only. */
    has_all_projects: boolean;
  };
  organization: {
    /** The organization of the member. */
    id: string;
    name: string;
  };
  /** The projects in which the member has a role, oldest first. The first one is the default. */
  projects: Array<{
    /** Value for the header Letterhaus-Project. */
    id: string;
    name: string;
    /** Role of the member. Each role includes those after it. */
    role: 'owner' | 'admin' | 'developer' | 'viewer';
  }>;
  /** Values for the header Letterhaus-Environment. The default is `test`. */
  environments: Array<'live' | 'test'>;
  /** True when signing in requires a code. */
  totp_enabled: boolean;
  /** True while the member has to set up the second factor that the installation requires. */
  must_enrol: boolean;
  /** Time of the sign-in. */
  created_at: string;
  /** Time of expiry unless the session is used before. */
  expires_at: string;
};

export type SessionEnded = {
  object: 'session';
  /** The session. */
  id: string;
  /** Always `true`. */
  deleted: boolean;
};

export type SessionsEnded = {
  object: 'session';
  /** Number of ended sessions. */
  count: number;
  /** Always `true`. */
  deleted: boolean;
};

export type Setup = {
  object: 'setup';
  /** True while the installation has no owner. */
  needs_owner: boolean;
  /** Identity provider that members can sign in with; null for none. */
  oidc: {
    /** Name of the identity provider. */
    name: string;
  } | null;
  /** True when the dashboard has a host name, which passkeys need. */
  passkeys: boolean;
};

export type SharedEmail = {
  object: 'email';
  /** The email. */
  id: string;
  /** URL of the page with the email. */
  url: string;
  /** Expiry of the link. */
  expires_at: string;
};

export type SignInPolicy = {
  object: 'sign_in_policy';
  /** True when every member needs a second factor. */
  second_factor_required: boolean;
  /** Time since when it is required, or null. */
  second_factor_required_at: string | null;
  /** Number of members who have neither an authenticator app nor a passkey. */
  members_without_second_factor: number;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type SignInPolicyChange = {
  /** True when every member needs a second factor. */
  second_factor_required: boolean;
};

/** Last reply or error about the recipient. */
export type SmtpAnswer = {
  code: number | null;
  enhanced_code: string | null;
  message: string;
  /** Host name of the mail server that replied. */
  mx: string | null;
  ip: string | null;
  /** TLS of the connection, or null when it was unencrypted. */
  tls: {
    version: string;
    cipher: string;
    /** True when the certificate of the server was valid. */
    verified: boolean;
    /** Reason why the certificate was not valid, or null. */
    problem?: string | null | undefined;
  } | null;
  /** TLS rule that applied to the server, or null when no server was chosen. */
  tls_policy?: string | null | undefined;
};

/** A finding that is snoozed for all members of the project. */
export type Snooze = {
  object: 'snooze';
  /** The finding. */
  id: string;
  /** End of the snooze. */
  until: string;
  /** Member who snoozed the finding, or null when the member was removed. */
  by: {
    id: string;
    name: string | null;
    email: string;
  } | null;
  /** Time of the snooze. */
  created_at: string;
};

export type SnoozeCreation = {
  /** Time until which the finding is snoozed, at most 30 days ahead. */
  until: string;
};

export type SnoozeList = {
  object: 'list';
  data: Snooze[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type Stats = {
  object: 'stats';
  /** Start of the first period. */
  from: string;
  /** End of the last period. */
  to: string;
  granularity: 'hour' | 'day';
  /** Time zone of the days, or null for UTC. */
  zone: string | null;
  by: 'domain' | 'provider' | 'tag' | 'key' | 'template' | 'reason' | null;
  /** Sums of each value over all periods, the largest first. Without `by`, at most one entry. */
  totals: Array<{
    /** Domain, provider, tag, id of the key or template, or category of the reason. `*` stands for all further values together. Null without `by`. */
    value: string | null;
    /** Name of the key or template. Null for other dimensions, and when it was deleted. */
    name: string | null;
    /** Number of accepted emails. Null with `by=provider` and `by=reason`. */
    emails: number | null;
    /** Number of recipients of accepted emails. Null with `by=provider` and `by=reason`. */
    recipients: number | null;
    /** Number of recipients whose email a relay accepted. */
    sent: number;
    /** Number of recipients whose mail server accepted the email. */
    delivered: number;
    /** Number of deferred attempts. */
    deferred: number;
    /** Number of recipients refused permanently, in the session or in a later report. */
    bounced: number;
    /** Number of recipients that ended without an answer about them. */
    failed: number;
    /** Number of recipients on the suppression list, which were not attempted. Null with `by=provider` and `by=reason`. */
    suppressed: number | null;
    /** Number of canceled recipients. Null with `by=provider` and `by=reason`. */
    canceled: number | null;
    /** Number of recipients who reported the email as spam. */
    complained: number;
    /** Number of recipients who opened the email, where opens are tracked. Machines are excluded. */
    opened: number;
    /** Number of recipients who clicked a link, where clicks are tracked. Machines are excluded. */
    clicked: number;
    /** Time between acceptance, or the scheduled time, and delivery. */
    time_to_delivery: {
      /** Number of deliveries by an attempt of this service, `sent` or `delivered`. */
      count: number;
      /** Upper bound in seconds for 50 % of the deliveries, or null without deliveries or above 5 days. */
      p50_at_most_s: number | null;
      /** Upper bound in seconds for 95 % of the deliveries, or null without deliveries or above 5 days. */
      p95_at_most_s: number | null;
      /** Upper bound in seconds for 99 % of the deliveries, or null without deliveries or above 5 days. */
      p99_at_most_s: number | null;
    };
    /** Deliveries by time to delivery. */
    histogram: Array<{
      /** Upper bound in seconds, or null above the last bound. */
      at_most_s: number | null;
      /** Number of deliveries up to this bound and above the previous one. */
      count: number;
    }>;
  }>;
  /** One entry for each period and value with a count. */
  data: Array<{
    /** Start of the period. */
    period: string;
    /** Domain, provider, tag, id of the key or template, or category of the reason. `*` stands for all further values together. Null without `by`. */
    value: string | null;
    /** Name of the key or template. Null for other dimensions, and when it was deleted. */
    name: string | null;
    /** Number of accepted emails. Null with `by=provider` and `by=reason`. */
    emails: number | null;
    /** Number of recipients of accepted emails. Null with `by=provider` and `by=reason`. */
    recipients: number | null;
    /** Number of recipients whose email a relay accepted. */
    sent: number;
    /** Number of recipients whose mail server accepted the email. */
    delivered: number;
    /** Number of deferred attempts. */
    deferred: number;
    /** Number of recipients refused permanently, in the session or in a later report. */
    bounced: number;
    /** Number of recipients that ended without an answer about them. */
    failed: number;
    /** Number of recipients on the suppression list, which were not attempted. Null with `by=provider` and `by=reason`. */
    suppressed: number | null;
    /** Number of canceled recipients. Null with `by=provider` and `by=reason`. */
    canceled: number | null;
    /** Number of recipients who reported the email as spam. */
    complained: number;
    /** Number of recipients who opened the email, where opens are tracked. Machines are excluded. */
    opened: number;
    /** Number of recipients who clicked a link, where clicks are tracked. Machines are excluded. */
    clicked: number;
    /** Time between acceptance, or the scheduled time, and delivery. */
    time_to_delivery: {
      /** Number of deliveries by an attempt of this service, `sent` or `delivered`. */
      count: number;
      /** Upper bound in seconds for 50 % of the deliveries, or null without deliveries or above 5 days. */
      p50_at_most_s: number | null;
      /** Upper bound in seconds for 95 % of the deliveries, or null without deliveries or above 5 days. */
      p95_at_most_s: number | null;
      /** Upper bound in seconds for 99 % of the deliveries, or null without deliveries or above 5 days. */
      p99_at_most_s: number | null;
    };
  }>;
};

export type StreamEvent = {
  object: 'event';
  /** Id of the event, as in `webhook-id`. Repeated events have the same id. */
  id: string;
  type: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow';
  /** Time of the event. */
  created_at: string;
  /** Number of the event within its email, from 1, as in the timeline. */
  number: number;
  /** Position in the stream. It is opaque. Store it and pass it back unchanged. */
  cursor: string;
  /** Data of the event, as in its webhook. */
  data: Record<string, unknown>;
};

export type Suppression = {
  object: 'suppression';
  /** Address as it was added. It is case-insensitive. */
  address: string;
  /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
  reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Email whose reply, report or link caused the suppression, or null without one. */
  source_email_id: string | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry, or null when the suppression does not expire. */
  expires_at: string | null;
  /** True for an address of the simulator for test mail. It is listed and still receives mail. */
  simulated: boolean;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type SuppressionChange = {
  action: 'added' | 'removed';
  /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
  reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Email whose reply, report or link caused the suppression, or null without one. */
  source_email_id: string | null;
  /** Time of the change. */
  at: string;
  /** Actor of the change. `delivery` is the reply of a mail server, and `recipient` is the unsubscribe page. */
  by: 'delivery' | 'recipient' | 'api' | 'import' | 'command_line';
};

export type SuppressionCreation = {
  /** Address as it was added. It is case-insensitive. */
  address: string;
  /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
  reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;
  /** Time of expiry, or null when the suppression does not expire. */
  expires_at?: string | null | undefined;
};

export type SuppressionHistory = {
  object: 'list';
  data: SuppressionChange[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type SuppressionImport = {
  object: 'suppression_import';
  /** Recognized format of the file, or null when the file has no entries. */
  format: 'letterhaus' | 'resend' | 'postmark' | 'sendgrid' | 'mailgun' | 'amazon_ses' | null;
  added: number;
  /** Number of addresses that were suppressed already, including repeated rows of the file. */
  already_there: number;
  rejected: number;
  /** Numbers of entries in another service's list that this service would not suppress, by reason. */
  left_out: Array<{
    because: 'not_permanent' | 'expired' | 'not_all_mail';
    rows: number;
    first_line: number;
    message: string;
  }>;
  /** First 100 rejected rows. */
  errors: Array<{
    /** Line of the row in the file, from 1. */
    line: number;
    /** Position of the entry in a JSON file, from 1, or null for CSV. */
    item: number | null;
    message: string;
  }>;
};

export type SuppressionList = {
  object: 'list';
  data: Suppression[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type SuppressionWithHistory = {
  object: 'suppression';
  /** Address as it was added. It is case-insensitive. */
  address: string;
  /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
  reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Email whose reply, report or link caused the suppression, or null without one. */
  source_email_id: string | null;
  /** Time of creation. */
  created_at: string;
  /** Time of expiry, or null when the suppression does not expire. */
  expires_at: string | null;
  /** True for an address of the simulator for test mail. It is listed and still receives mail. */
  simulated: boolean;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  /** History of the address, newest first, at most 100 entries. */
  history: SuppressionChange[];
};

export type Template = {
  object: 'template';
  /** The template. */
  id: string;
  /** Display name of the template. */
  name: string;
  /** Name for use instead of the id, unique in its project and environment. */
  alias: string | null;
  /** Number of the version, from 1. */
  latest_version: number;
  /** Version that emails use, or null until one is published. */
  published_version: number | null;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Time of creation. */
  created_at: string;
  /** Time of the last change or publication. */
  updated_at: string;
  /** Version of this content. */
  version: number;
  /** Subject: one line in Liquid. When it is empty, each email needs its own subject. */
  subject: string;
  /** HTML in Liquid. Values of variables are escaped. `html` or `text` is required. */
  html: string | null;
  /** Text in Liquid, or null to derive it from the html. */
  text: string | null;
  variables: TemplateVariable[];
  /** Time of the first publication, or null for a draft. */
  published_at: string | null;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type TemplateChange = {
  /** Display name of the template. */
  name?: string | undefined;
  /** New alias. Null removes the alias. */
  alias?: string | null | undefined;
  /** Subject: one line in Liquid. When it is empty, each email needs its own subject. */
  subject?: string | undefined;
  /** HTML in Liquid. Values of variables are escaped. `html` or `text` is required. */
  html?: string | null | undefined;
  /** Text in Liquid, or null to derive it from the html. */
  text?: string | null | undefined;
  /** All variables that the subject, html or text reads. */
  variables?: TemplateVariableDefinition[] | undefined;
};

export type TemplateCreation = {
  /** Display name of the template. */
  name: string;
  /** Name for use instead of the id, unique in its project and environment. */
  alias?: string | null | undefined;
  /** Subject: one line in Liquid. When it is empty, each email needs its own subject. */
  subject?: string | undefined;
  /** HTML in Liquid. Values of variables are escaped. `html` or `text` is required. */
  html?: string | null | undefined;
  /** Text in Liquid, or null to derive it from the html. */
  text?: string | null | undefined;
  /** All variables that the subject, html or text reads. */
  variables?: TemplateVariableDefinition[] | undefined;
};

export type TemplateList = {
  object: 'list';
  data: TemplateSummary[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type TemplatePreview = {
  variables?: Record<string, unknown> | undefined;
  /** Version to render. The default is the latest, published or not. */
  version?: number | undefined;
  /** Content that is not stored yet. Its fields replace the fields of the version. */
  content?: {
    /** Subject: one line in Liquid. When it is empty, each email needs its own subject. */
    subject?: string | undefined;
    /** HTML in Liquid. Values of variables are escaped. `html` or `text` is required. */
    html?: string | null | undefined;
    /** Text in Liquid, or null to derive it from the html. */
    text?: string | null | undefined;
    /** All variables that the subject, html or text reads. */
    variables?: TemplateVariableDefinition[] | undefined;
  } | undefined;
};

export type TemplatePublication = {
  /** Version to publish. The default is the latest. An older version undoes changes. */
  version?: number | undefined;
};

export type TemplateSummary = {
  object: 'template';
  /** The template. */
  id: string;
  /** Display name of the template. */
  name: string;
  /** Name for use instead of the id, unique in its project and environment. */
  alias: string | null;
  /** Number of the version, from 1. */
  latest_version: number;
  /** Version that emails use, or null until one is published. */
  published_version: number | null;
  /** Environment. `live` delivers mail. `test` simulates every delivery. */
  environment: 'live' | 'test';
  /** Time of creation. */
  created_at: string;
  /** Time of the last change or publication. */
  updated_at: string;
};

export type TemplateTranslation = {
  /** Syntax of the source. `resend` has only variables in three braces. */
  syntax: 'handlebars' | 'resend';
  subject?: string | null | undefined;
  html?: string | null | undefined;
  text?: string | null | undefined;
};

export type TemplateVariable = {
  name: string;
  /** Value of the variable when a request omits it. A variable without a default is required. */
  default?: unknown;
  type?: 'string' | 'number' | 'boolean' | 'list' | 'object' | undefined;
};

export type TemplateVariableDefinition = {
  name: string;
  /** Value of the variable when a request omits it. A variable without a default is required. */
  default?: unknown;
  type?: 'string' | 'number' | 'boolean' | 'list' | 'object' | undefined;
};

export type TemplateVersion = {
  object: 'template_version';
  /** Number of the version, from 1. */
  version: number;
  /** Subject: one line in Liquid. When it is empty, each email needs its own subject. */
  subject: string;
  /** Time of creation. */
  created_at: string;
  /** Address of the member who saved this content last, or null when an API key or a command did. */
  saved_by: string | null;
  /** Time of the last change of this content, or null for versions of earlier builds. */
  saved_at: string | null;
  /** Time of the first publication, or null for a draft. */
  published_at: string | null;
};

export type TemplateVersionList = {
  object: 'list';
  data: TemplateVersion[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type TimelineEvent = {
  object: 'event';
  /** Number of the event within the email, from 1. */
  number: number;
  /** Id of the event, as in `webhook-id`. */
  id: string;
  type: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow';
  /** Time of the event. */
  created_at: string;
  /** Address of the recipient, or null when the event concerns the whole email. */
  recipient: string | null;
  /** Data of the event, as in its webhook. */
  data: Record<string, unknown>;
  /** Attempt that caused the event, with the SMTP dialogue, or null without one. */
  attempt: Record<string, unknown> | null;
};

export type TimelineEventList = {
  object: 'list';
  data: TimelineEvent[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type TlsResult = {
  object: 'tls_result';
  day: string;
  /** Domain of the recipients. */
  domain: string;
  /** Policy that required TLS. */
  policy: 'tlsa' | 'sts' | 'no-policy-found';
  /** `success`, or a result type of RFC 8460. */
  result: string;
  /** Number of sessions. */
  sessions: number;
};

export type TlsResultList = {
  object: 'list';
  data: TlsResult[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type Totp = {
  object: 'totp';
  /** True when signing in requires a code. */
  enabled: boolean;
  /** Number of unused recovery codes. */
  recovery_codes_left: number;
};

export type TotpCode = {
  /** Code from the authenticator app, or a recovery code. */
  code: string;
};

export type TotpSecret = {
  object: 'totp_secret';
  /** Secret to enter in an authenticator app. */
  secret: string;
  /** The secret as a URL for a QR code. */
  url: string;
};

export type TranslatedTemplate = {
  object: 'translated_template';
  subject: string | null;
  html: string | null;
  text: string | null;
  /** All variables of the template, with the types that their uses suggest. */
  variables: TemplateVariable[];
  /** Number of translated tags and outputs. */
  translated: number;
  /** Parts without a translation, which are left out. At most 100 for each field. */
  problems: Array<{
    field: 'subject' | 'html' | 'text';
    /** Line of the problem, from 1. */
    line: number;
    message: string;
  }>;
};

/** Reasons why no mail is accepted. */
export type Unready = {
  error: {
    /** Stable code of the error. */
    code: string;
    /** One sentence that says what is wrong and what to do. */
    message: string;
    /** Id of the request, to quote when you report a problem. */
    request_id: string;
    /** Invalid fields, each with its own message. */
    details?: Array<{
      field: string;
      message: string;
    }> | undefined;
  };
  status: 'unready';
  /** All reasons, each with its own code. */
  reasons: Array<{
    /** Stable code of the reason. */
    code: 'database_unavailable' | 'database_read_only' | 'database_full' | 'disk_full' | 'clock' | 'schema' | 'secret_key' | 'overloaded' | 'shutting_down';
    /** One sentence that says what is wrong and what to do. */
    message: string;
  }>;
};

export type Variable = {
  object: 'variable';
  name: string;
  /** False when the default applies. */
  is_set: boolean;
  /** True for secrets, whose value is not shown. */
  is_hidden: boolean;
  /** Its value, or null. */
  value: string | null;
};

export type VariableList = {
  object: 'list';
  data: Variable[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

/** A saved search in the list of emails. */
export type View = {
  object: 'view';
  /** The view. */
  id: string;
  name: string;
  q: string;
  /** Time of creation. */
  created_at: string;
};

export type ViewCreation = {
  /** Name of the view. A view with the same name is replaced. */
  name: string;
  /** Search text in the syntax of `q` in `GET /v1/emails`. */
  q: string;
};

export type ViewList = {
  object: 'list';
  data: View[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

export type Webhook = {
  object: 'webhook';
  /** The webhook. */
  id: string;
  /** HTTPS URL with a public address. Redirects are not followed. */
  url: string;
  /** Types of events to send. Null sends all types, including types of later versions. */
  events: Array<'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow'> | null;
  /** Status of the webhook. A disabled webhook receives no events, and its pending deliveries have failed. */
  status: 'enabled' | 'disabled';
  /** Reason why the service disabled the webhook, or null if it did not. */
  disabled_reason: string | null;
  /** Time since which all attempts have failed, or null when it is not failing. */
  failing_since: string | null;
  /** Number of failed attempts since `failing_since`. */
  failures: number;
  /** The last failed attempt, or null when the webhook is not failing. */
  last_failure: {
    /** Time of the attempt. */
    at: string;
    /** HTTP status of the response, or null without one. */
    status: number | null;
    /** First 200 characters of the response, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
  } | null;
  /** Time before which the service attempts no delivery, after failures in a row, or null. */
  suspended_until: string | null;
  /** Time of registration. */
  created_at: string;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
};

export type WebhookChange = {
  /** HTTPS URL with a public address. Redirects are not followed. */
  url?: string | undefined;
  /** Types of events to send. Null sends all types, including types of later versions. */
  events?: Array<'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow'> | null | undefined;
  /** Status of the webhook. A disabled webhook receives no events, and its pending deliveries have failed. */
  status?: 'enabled' | 'disabled' | undefined;
};

export type WebhookCreation = {
  /** HTTPS URL with a public address. Redirects are not followed. */
  url: string;
  /** Types of events to send. Null sends all types, including types of later versions. */
  events?: Array<'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow'> | null | undefined;
};

export type WebhookDelivery = {
  object: 'webhook_delivery';
  /** Id of the delivery and its event, as in the `webhook-id` header of every attempt. */
  id: string;
  /** Type of the event. */
  type: string;
  /** Email of the event, or null when it concerns no email. */
  email_id: string | null;
  /** Recipient of the event, or the only recipient of its email, or null. */
  recipient: string | null;
  /** Status of the delivery. It is `pending` until a 2xx response or the last retry. */
  status: 'pending' | 'delivered' | 'failed';
  /** Number of attempts so far. */
  attempts: number;
  /** Time of the event. */
  created_at: string;
  /** Time of the 2xx response or of the last failed attempt, or null while pending. */
  completed_at: string | null;
  /** Due time of the next attempt, or null without one. */
  next_attempt_at: string | null;
  /** The last attempt, or null before the first. */
  last_attempt: {
    /** Time of the attempt. */
    at: string;
    /** HTTP status of the response, or null without a response. */
    status: number | null;
    latency_ms: number;
    /** First 200 characters of the response, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
  } | null;
};

export type WebhookDeliveryDetail = {
  object: 'webhook_delivery';
  /** Id of the delivery and its event, as in the `webhook-id` header of every attempt. */
  id: string;
  /** Type of the event. */
  type: string;
  /** Email of the event, or null when it concerns no email. */
  email_id: string | null;
  /** Recipient of the event, or the only recipient of its email, or null. */
  recipient: string | null;
  /** Status of the delivery. It is `pending` until a 2xx response or the last retry. */
  status: 'pending' | 'delivered' | 'failed';
  /** Number of attempts so far. */
  attempts: number;
  /** Time of the event. */
  created_at: string;
  /** Time of the 2xx response or of the last failed attempt, or null while pending. */
  completed_at: string | null;
  /** Due time of the next attempt, or null without one. */
  next_attempt_at: string | null;
  /** The last attempt, or null before the first. */
  last_attempt: {
    /** Time of the attempt. */
    at: string;
    /** HTTP status of the response, or null without a response. */
    status: number | null;
    latency_ms: number;
    /** First 200 characters of the response, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
  } | null;
  /** Last 20 attempts, oldest first. */
  log: Array<{
    /** Time of the attempt. */
    at: string;
    /** HTTP status of the response, or null without a response. */
    status: number | null;
    latency_ms: number;
    /** First 4 KB of the response, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
  }>;
  /** Body of the request, or null when the retention has removed the event. */
  payload: {
    type: string;
    /** Time of the event. */
    created_at: string;
    data: unknown;
  } | null;
};

export type WebhookDeliveryList = {
  object: 'list';
  data: WebhookDelivery[];
  /** True when the list continues in this direction. */
  has_more: boolean;
  /** Position of the search, to pass as `after` when the list continues. One call searches at most 50,000 deliveries with a filter other than `status=failed`, `email_id` and `recipient`. */
  scanned_until: string | null;
};

export type WebhookList = {
  object: 'list';
  data: Webhook[];
  /** True when the list continues in this direction. */
  has_more: boolean;
};

/** A replay of the deliveries of a period. */
export type WebhookReplay = {
  object: 'webhook_replay';
  /** The replay. */
  id: string;
  /** Webhook of the replay. */
  webhook_id: string;
  /** Status of the replay. `completed`: all deliveries are queued. `canceled`: the webhook was disabled or deleted. */
  status: 'running' | 'completed' | 'canceled';
  /** Start of the period. It includes events of this time. */
  since: string;
  /** End of the period. It excludes events of this time. */
  until: string;
  /** Includes only deliveries with this status. */
  delivery_status: 'pending' | 'delivered' | 'failed' | null;
  /** Includes only deliveries of this type of event. */
  type: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow' | 'webhook.test' | null;
  /** Includes only deliveries whose last attempt got this HTTP status (`500`), a status of this class (`5xx`), or no response (`none`). */
  code: string | null;
  /** Number of matching deliveries when the replay began. */
  total: number;
  /** Number of deliveries queued so far. */
  queued: number;
  /** Start of the replay. */
  created_at: string;
  /** End of the replay, or null while it runs. */
  completed_at: string | null;
};

export type WebhookReplayCreation = {
  /** Start of the period. It includes events of this time. */
  since: string;
  /** End of the period, at most the current time. It excludes events of this time. */
  until: string;
  /** Includes only deliveries with this status. */
  status?: 'pending' | 'delivered' | 'failed' | undefined;
  /** Includes only deliveries of this type of event. */
  type?: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow' | 'webhook.test' | undefined;
  /** Includes only deliveries whose last attempt got this HTTP status (`500`), a status of this class (`5xx`), or no response (`none`). */
  code?: string | undefined;
};

export type WebhookSelection = {
  /** Ids of the deliveries, at most 500. */
  ids: string[];
};

export type WebhookSelectionReplay = {
  object: 'webhook_selection_replay';
  /** Number of deliveries that are queued. Unknown ids, and deliveries that are being sent, are not. */
  queued: number;
};

export type WebhookStatistics = {
  object: 'webhook_statistics';
  /** Start of the period. */
  since: string;
  /** End of the period. */
  until: string;
  /** Number of deliveries with a 2xx response. */
  delivered: number;
  /** Number of failed deliveries, and of pending ones whose last attempt failed. */
  failed: number;
  /** Number of deliveries without an attempt. */
  waiting: number;
  /** True when the period has more than 20,000 deliveries. The statistics are then of the newest 20,000. */
  is_partial: boolean;
  /** Response time that 95 % of the deliveries do not exceed, or null without a response. */
  latency_p95_ms: number | null;
  /** Number of deliveries that wait for an attempt now, whatever the period. 10,001 means more than 10,000. */
  pending: number;
  /** Due time of the next attempt, or null when none waits. */
  next_attempt_at: string | null;
  /** All intervals of the period, oldest first. */
  intervals: Array<{
    /** Start of the interval. */
    at: string;
    delivered: number;
    failed: number;
    waiting: number;
  }>;
  /** Failures by last response, the most frequent first, at most 20. Numbers in a response make no difference. */
  failures: Array<{
    /** HTTP status of the response, or null without one. */
    status: number | null;
    /** First 200 characters of the newest of these responses, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
    deliveries: number;
    /** Number of attempts of these deliveries. */
    attempts: number;
    /** Time of their first attempt. */
    first_at: string;
    /** Time of their last attempt. */
    last_at: string;
    /** The newest of these deliveries. */
    delivery_id: string;
  }>;
};

export type WebhookTestRequest = {
  /** Type of the event. Its data is an example. Default: `webhook.test`. */
  type?: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | undefined;
};

export type WebhookWithSecret = {
  object: 'webhook';
  /** The webhook. */
  id: string;
  /** HTTPS URL with a public address. Redirects are not followed. */
  url: string;
  /** Types of events to send. Null sends all types, including types of later versions. */
  events: Array<'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow'> | null;
  /** Status of the webhook. A disabled webhook receives no events, and its pending deliveries have failed. */
  status: 'enabled' | 'disabled';
  /** Reason why the service disabled the webhook, or null if it did not. */
  disabled_reason: string | null;
  /** Time since which all attempts have failed, or null when it is not failing. */
  failing_since: string | null;
  /** Number of failed attempts since `failing_since`. */
  failures: number;
  /** The last failed attempt, or null when the webhook is not failing. */
  last_failure: {
    /** Time of the attempt. */
    at: string;
    /** HTTP status of the response, or null without one. */
    status: number | null;
    /** First 200 characters of the response, or null without a response. */
    answer: string | null;
    /** Reason why there was no usable response, or null. */
    error: string | null;
  } | null;
  /** Time before which the service attempts no delivery, after failures in a row, or null. */
  suspended_until: string | null;
  /** Time of registration. */
  created_at: string;
  /** Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change. */
  etag: string;
  /** Secret to verify signatures (Standard Webhooks). It is returned only here. */
  signing_secret: string;
};

export type Operations = {
  /** Send an email */
  sendEmail: {
    query: {
      /** With `true`, nothing is stored, counted or sent. The response predicts the outcome. */
      dry_run?: boolean | undefined;
    };
    body: EmailCreation;
    result: AcceptedEmailOrDryRun | AcceptedEmail;
  };
  /** List emails */
  listEmails: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
      /** Search text. All of its words and quoted texts must occur: each is a part of the subject, an address, a name, a tag or the Message-ID. An id alone is that of an email. The operators `to:`, `from:`, `subject:`, `status:`, `domain:`, `tag:`, `template:`, `key:`, `provider:`, `reason:`, `reply:`, `server:`, `id:`, `after:` and `before:` are filters. `to:` and `from:` take an address or a part of one, `reply:` and `server:` a part of the last reply of a mail server and of its name. `after:` and `before:` take a time of creation, or a date in UTC. */
      q?: string | undefined;
      status?: EmailStatus | undefined;
      /** Returns only emails with this address in `to`, `cc` or `bcc`. */
      to?: string | undefined;
      /** Returns only emails from this address. It has no display name. */
      from?: string | undefined;
      /** Returns only emails with this text in the subject, in any case. */
      subject?: string | undefined;
      /** Returns only emails with this tag, as `name` or `name:value`. */
      tag?: string | undefined;
      /** The sending domain. */
      domain?: string | undefined;
      /** Returns only emails created at or after this time. */
      created_after?: string | undefined;
      /** Returns only emails created before this time. */
      created_before?: string | undefined;
    };
    body: undefined;
    result: EmailList;
  };
  /** Count emails */
  countEmails: {
    query: {
      /** Search text. All of its words and quoted texts must occur: each is a part of the subject, an address, a name, a tag or the Message-ID. An id alone is that of an email. The operators `to:`, `from:`, `subject:`, `status:`, `domain:`, `tag:`, `template:`, `key:`, `provider:`, `reason:`, `reply:`, `server:`, `id:`, `after:` and `before:` are filters. `to:` and `from:` take an address or a part of one, `reply:` and `server:` a part of the last reply of a mail server and of its name. `after:` and `before:` take a time of creation, or a date in UTC. */
      q?: string | undefined;
      status?: EmailStatus | undefined;
      /** Returns only emails with this address in `to`, `cc` or `bcc`. */
      to?: string | undefined;
      /** Returns only emails from this address. It has no display name. */
      from?: string | undefined;
      /** Returns only emails with this text in the subject, in any case. */
      subject?: string | undefined;
      /** Returns only emails with this tag, as `name` or `name:value`. */
      tag?: string | undefined;
      /** The sending domain. */
      domain?: string | undefined;
      /** Returns only emails created at or after this time. */
      created_after?: string | undefined;
      /** Returns only emails created before this time. */
      created_before?: string | undefined;
    };
    body: undefined;
    result: EmailCounts;
  };
  /** Get an email */
  getEmail: {
    query: Record<never, never>;
    body: undefined;
    result: Email;
  };
  /** Reschedule an email */
  rescheduleEmail: {
    query: Record<never, never>;
    body: EmailChange;
    result: Email;
  };
  /** Cancel an email */
  cancelEmail: {
    query: Record<never, never>;
    body: undefined;
    result: Email;
  };
  /** Get the timeline of an email */
  listEmailEvents: {
    query: {
      /** Maximum number of events to return. */
      limit?: number | undefined;
      /** Returns only events after the event with this number. */
      after?: number | undefined;
    };
    body: undefined;
    result: TimelineEventList;
  };
  /** Get the exact bytes of an email */
  getEmailContent: {
    query: {
      /** Recipient of the message. The default is the first recipient. */
      recipient?: string | undefined;
    };
    body: undefined;
    result: string;
  };
  /** Diagnose why an email is slow or missing */
  diagnoseEmail: {
    query: Record<never, never>;
    body: undefined;
    result: Diagnosis;
  };
  /** Cancel scheduled emails */
  cancelEmails: {
    query: Record<never, never>;
    body: EmailCancellationRequest;
    result: EmailCancellation;
  };
  /** Inspect the contents of an email */
  inspectEmail: {
    query: Record<never, never>;
    body: undefined;
    result: EmailInspection;
  };
  /** Download an attachment */
  downloadEmailAttachment: {
    query: Record<never, never>;
    body: undefined;
    result: string;
  };
  /** List the webhook deliveries of an email */
  listEmailWebhookDeliveries: {
    query: Record<never, never>;
    body: undefined;
    result: EmailWebhookDeliveryList;
  };
  /** Share an email by a link */
  shareEmail: {
    query: Record<never, never>;
    body: EmailSharing;
    result: SharedEmail;
  };
  /** Download the case file of an email */
  getEmailCaseFile: {
    query: {
      /** Only this recipient. The file then names no other one. The default is all. */
      recipient?: string | undefined;
    };
    body: undefined;
    result: CaseFile;
  };
  /** Get the key that signs case files */
  getReceiptKey: {
    query: Record<never, never>;
    body: undefined;
    result: ReceiptKey;
  };
  /** Read the stream of events */
  listEvents: {
    query: {
      /** Cursor, to return only events after it. `latest` returns only new events. Without it, the stream begins with the oldest stored event. */
      after?: string | undefined;
      /** Returns only events of these types, separated by commas. */
      types?: string | undefined;
      /** Returns only events of this email. */
      email_id?: string | undefined;
      /** Maximum number of objects to return. */
      limit?: number | undefined;
    };
    body: undefined;
    result: EventList;
  };
  /** Show the history of an address */
  getRecipientLog: {
    query: {
      /** Scope of the history. `organization` includes all projects of the organization, for members only. */
      scope?: 'project' | 'organization' | undefined;
      /** Environment to include with the scope `organization`. The default is both. */
      environment?: 'live' | 'test' | undefined;
      /** Maximum number of entries to return. */
      limit?: number | undefined;
    };
    body: undefined;
    result: RecipientLogList;
  };
  /** List recipients */
  listRecipients: {
    query: {
      /** Number of recipients after which a page ends. Recipients of one email are on the same page, so it may have up to 99 more. */
      limit?: number | undefined;
      /** Returns only recipients whose newest email is older than this one: `scanned_until` of the page before. */
      after?: string | undefined;
      /** Returns only addresses that contain this text, in any case. */
      q?: string | undefined;
    };
    body: undefined;
    result: RecipientList;
  };
  /** Show a recipient */
  getRecipient: {
    query: Record<never, never>;
    body: undefined;
    result: RecipientOverview;
  };
  /** Count mail by outcome */
  getStats: {
    query: {
      /** Time or date in the first period. The default is 24 hours or 30 days before `to`. */
      from?: string | undefined;
      /** Time or date of the end. The default is now. The period that contains it is included whole. */
      to?: string | undefined;
      /** Length of a period. Hours are kept for 31 days, and days for 400 days. */
      granularity?: 'hour' | 'day' | undefined;
      /** Time zone in which days and dates begin. The default is UTC. Such days are sums of hours, which are kept for 31 days. */
      zone?: string | undefined;
      /** Dimension of the counts: the sending domain, the provider of the recipient, the tag as `name:value`, the API key, the template, or the reason of a deferral or bounce. */
      by?: 'domain' | 'provider' | 'tag' | 'key' | 'template' | 'reason' | undefined;
    };
    body: undefined;
    result: Stats;
  };
  /** Show waiting mail */
  getQueue: {
    query: {
      /** Scope of the request. `project`: the project and environment of the caller. `organization`: all projects in both environments, for members only. */
      scope?: 'project' | 'organization' | undefined;
    };
    body: undefined;
    result: Queue;
  };
  /** Show a provider in the queue */
  getQueueProvider: {
    query: {
      /** Scope of the request. `project`: the project and environment of the caller. `organization`: all projects in both environments, for members only. */
      scope?: 'project' | 'organization' | undefined;
    };
    body: undefined;
    result: QueueProvider;
  };
  /** Hold waiting mail */
  holdQueue: {
    query: Record<never, never>;
    body: QueueChangeRequest;
    result: QueueChange;
  };
  /** Release waiting mail */
  releaseQueue: {
    query: Record<never, never>;
    body: QueueChangeRequest;
    result: QueueChange;
  };
  /** Retry waiting mail */
  retryQueue: {
    query: Record<never, never>;
    body: QueueChangeRequest;
    result: QueueChange;
  };
  /** Drop waiting mail */
  dropQueue: {
    query: Record<never, never>;
    body: QueueSelection;
    result: QueueDrop;
  };
  /** Undo a drop */
  undoQueueDrop: {
    query: Record<never, never>;
    body: undefined;
    result: QueueDrop;
  };
  /** Send up to 100 emails */
  sendEmailBatch: {
    query: Record<never, never>;
    body: EmailBatchCreation;
    result: AcceptedBatch;
  };
  /** Add a domain */
  createDomain: {
    query: Record<never, never>;
    body: DomainCreation;
    result: Domain;
  };
  /** List domains */
  listDomains: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
    };
    body: undefined;
    result: DomainList;
  };
  /** Get a domain */
  getDomain: {
    query: {
      /** With `true` the response includes `waiting`. Counting takes time in a long queue. */
      waiting?: boolean | undefined;
    };
    body: undefined;
    result: Domain;
  };
  /** Change a domain */
  updateDomain: {
    query: Record<never, never>;
    body: DomainChange;
    result: Domain;
  };
  /** Remove a domain */
  deleteDomain: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedDomain;
  };
  /** Verify a domain */
  verifyDomain: {
    query: Record<never, never>;
    body: undefined;
    result: Domain;
  };
  /** Rotate the DKIM keys */
  rotateDomainDkim: {
    query: Record<never, never>;
    body: undefined;
    result: Domain;
  };
  /** Cancel a rotation */
  cancelDomainDkimRotation: {
    query: Record<never, never>;
    body: undefined;
    result: Domain;
  };
  /** Publish the records at the DNS provider */
  publishDomainRecords: {
    query: Record<never, never>;
    body: DomainPublicationWrite;
    result: DomainPublication;
  };
  /** Get the DMARC status of a domain */
  getDomainDmarc: {
    query: Record<never, never>;
    body: undefined;
    result: DmarcStatus;
  };
  /** Register a webhook */
  createWebhook: {
    query: Record<never, never>;
    body: WebhookCreation;
    result: WebhookWithSecret;
  };
  /** List webhooks */
  listWebhooks: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
    };
    body: undefined;
    result: WebhookList;
  };
  /** Get a webhook */
  getWebhook: {
    query: Record<never, never>;
    body: undefined;
    result: Webhook;
  };
  /** Change a webhook */
  updateWebhook: {
    query: Record<never, never>;
    body: WebhookChange;
    result: Webhook;
  };
  /** Delete a webhook */
  deleteWebhook: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedWebhook;
  };
  /** Rotate the signing secret */
  rotateWebhookSecret: {
    query: Record<never, never>;
    body: undefined;
    result: WebhookWithSecret;
  };
  /** Test a webhook */
  testWebhook: {
    query: Record<never, never>;
    body: WebhookTestRequest;
    result: WebhookDeliveryDetail;
  };
  /** List deliveries of a webhook */
  listWebhookDeliveries: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
      /** Status of the delivery. It is `pending` until a 2xx response or the last retry. */
      status?: 'pending' | 'delivered' | 'failed' | undefined;
      /** Returns only deliveries of this type of event. */
      type?: 'email.queued' | 'email.scheduled' | 'email.sent' | 'email.delivered' | 'email.delivery_delayed' | 'email.bounced' | 'email.complained' | 'email.suppressed' | 'email.failed' | 'email.canceled' | 'email.opened' | 'email.clicked' | 'domain.created' | 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | 'domain.deleted' | 'suppression.added' | 'suppression.removed' | 'project.reputation_alert' | 'webhook.disabled' | 'provider.blocked' | 'provider.unblocked' | 'disk.low' | 'database.full' | 'storage.low' | 'secret_key.unusable' | 'certificate.expiring' | 'certificate.mismatch' | 'certificate.not_issued' | 'clock.skewed' | 'reconciliation.difference' | 'operator.unreachable' | 'dns.unavailable' | 'backup.failed' | 'backup.overdue' | 'doctor.red' | 'doctor.yellow' | 'webhook.test' | undefined;
      /** Returns only deliveries whose last attempt got this HTTP status (`500`), a status of this class (`5xx`), or no response (`none`). */
      code?: string | undefined;
      /** Returns only events from this time on. */
      since?: string | undefined;
      /** Returns only events before this time. */
      until?: string | undefined;
      /** Returns only events of this email, at most the newest 1,000. */
      email_id?: string | undefined;
      /** Returns only events about this recipient, of the newest 500 emails to the address. */
      recipient?: string | undefined;
    };
    body: undefined;
    result: WebhookDeliveryList;
  };
  /** Get a delivery */
  getWebhookDelivery: {
    query: Record<never, never>;
    body: undefined;
    result: WebhookDeliveryDetail;
  };
  /** Get statistics of a webhook */
  getWebhookStatistics: {
    query: {
      /** Start of the period. Default: 24 hours before its end. */
      since?: string | undefined;
      /** End of the period. Default: now. */
      until?: string | undefined;
      /** Number of intervals of equal length. */
      intervals?: number | undefined;
    };
    body: undefined;
    result: WebhookStatistics;
  };
  /** Replay some deliveries */
  replayWebhookDeliveries: {
    query: Record<never, never>;
    body: WebhookSelection;
    result: WebhookSelectionReplay;
  };
  /** Replay a delivery */
  replayWebhookDelivery: {
    query: Record<never, never>;
    body: undefined;
    result: WebhookDeliveryDetail;
  };
  /** Replay the deliveries of a period */
  replayWebhook: {
    query: Record<never, never>;
    body: WebhookReplayCreation;
    result: WebhookReplay;
  };
  /** Get a replay */
  getWebhookReplay: {
    query: Record<never, never>;
    body: undefined;
    result: WebhookReplay;
  };
  /** List suppressed addresses */
  listSuppressions: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only addresses after this address of the list. */
      after?: string | undefined;
      /** Returns only addresses before this address of the list. */
      before?: string | undefined;
      /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
      reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;
      /** Returns only addresses that begin with this text. */
      address?: string | undefined;
    };
    body: undefined;
    result: SuppressionList;
  };
  /** Suppress an address */
  createSuppression: {
    query: Record<never, never>;
    body: SuppressionCreation;
    result: Suppression;
  };
  /** Get a suppression */
  getSuppression: {
    query: Record<never, never>;
    body: undefined;
    result: SuppressionWithHistory;
  };
  /** Remove a suppression */
  deleteSuppression: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedSuppression;
  };
  /** List the history of an address */
  listSuppressionHistory: {
    query: Record<never, never>;
    body: undefined;
    result: SuppressionHistory;
  };
  /** Export suppressed addresses */
  exportSuppressions: {
    query: {
      /** Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox was full for a long time. */
      reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;
      /** Returns only addresses that begin with this text. */
      address?: string | undefined;
    };
    body: undefined;
    result: string;
  };
  /** Create a template */
  createTemplate: {
    query: Record<never, never>;
    body: TemplateCreation;
    result: Template;
  };
  /** List templates */
  listTemplates: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
      /** Returns only templates with this text in the name or alias, in any case. */
      q?: string | undefined;
    };
    body: undefined;
    result: TemplateList;
  };
  /** Get a template */
  getTemplate: {
    query: Record<never, never>;
    body: undefined;
    result: Template;
  };
  /** Change a template */
  updateTemplate: {
    query: Record<never, never>;
    body: TemplateChange;
    result: Template;
  };
  /** Delete a template */
  deleteTemplate: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedTemplate;
  };
  /** List the versions of a template */
  listTemplateVersions: {
    query: Record<never, never>;
    body: undefined;
    result: TemplateVersionList;
  };
  /** Get a version of a template */
  getTemplateVersion: {
    query: Record<never, never>;
    body: undefined;
    result: Template;
  };
  /** Publish a version of a template */
  publishTemplate: {
    query: Record<never, never>;
    body: TemplatePublication;
    result: Template;
  };
  /** Render a template */
  previewTemplate: {
    query: Record<never, never>;
    body: TemplatePreview;
    result: RenderedTemplate;
  };
  /** Translate a template of another service */
  translateTemplate: {
    query: Record<never, never>;
    body: TemplateTranslation;
    result: TranslatedTemplate;
  };
  /** Get the calling key */
  getCurrentApiKey: {
    query: Record<never, never>;
    body: undefined;
    result: CurrentApiKey;
  };
  /** Create an API key */
  createApiKey: {
    query: Record<never, never>;
    body: ApiKeyCreation;
    result: ApiKeyWithSecret;
  };
  /** List API keys */
  listApiKeys: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
    };
    body: undefined;
    result: ApiKeyList;
  };
  /** Change an API key */
  updateApiKey: {
    query: Record<never, never>;
    body: ApiKeyChange;
    result: ApiKey;
  };
  /** Revoke an API key */
  revokeApiKey: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedApiKey;
  };
  /** Rotate an API key */
  rotateApiKey: {
    query: Record<never, never>;
    body: ApiKeyRotation;
    result: RotatedApiKey;
  };
  /** List the projects of the organization */
  listProjects: {
    query: Record<never, never>;
    body: undefined;
    result: ProjectList;
  };
  /** Create a project */
  createProject: {
    query: Record<never, never>;
    body: ProjectWrite;
    result: Project;
  };
  /** Rename a project */
  updateProject: {
    query: Record<never, never>;
    body: ProjectWrite;
    result: Project;
  };
  /** Read the limits */
  getLimits: {
    query: Record<never, never>;
    body: undefined;
    result: Limits;
  };
  /** How to reach the service */
  getConnection: {
    query: Record<never, never>;
    body: undefined;
    result: Connection;
  };
  /** Show the sign-in policy */
  getSignInPolicy: {
    query: Record<never, never>;
    body: undefined;
    result: SignInPolicy;
  };
  /** Require a second factor */
  updateSignInPolicy: {
    query: Record<never, never>;
    body: SignInPolicyChange;
    result: SignInPolicy;
  };
  /** List members */
  listMembers: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
    };
    body: undefined;
    result: MemberList;
  };
  /** Change the role of a member */
  updateMember: {
    query: Record<never, never>;
    body: MemberChange;
    result: Member;
  };
  /** Remove a member */
  removeMember: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedMember;
  };
  /** List invitations */
  listInvitations: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
    };
    body: undefined;
    result: InvitationList;
  };
  /** Invite a member */
  createInvitation: {
    query: Record<never, never>;
    body: InvitationCreation;
    result: InvitationWithLink;
  };
  /** Revoke an invitation */
  revokeInvitation: {
    query: Record<never, never>;
    body: undefined;
    result: DeletedInvitation;
  };
  /** Read the audit log */
  listAuditEvents: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
      /** Returns only this action. */
      action?: string | undefined;
      /** Returns only changes of objects of this type. */
      object?: 'account' | 'api_key' | 'domain' | 'email' | 'installation' | 'invitation' | 'member' | 'project' | 'queue' | 'suppression' | 'template' | 'webhook' | undefined;
      /** Returns only changes by this member or key. */
      actor_id?: string | undefined;
      /** Returns only changes in this project. */
      project_id?: string | undefined;
      /** Returns only changes of this object. */
      target_id?: string | undefined;
      /** Returns only changes at this time or later. */
      from?: string | undefined;
      /** Returns only changes before this time. */
      to?: string | undefined;
    };
    body: undefined;
    result: AuditEventList;
  };
  /** List open conditions */
  listOperatorConditions: {
    query: Record<never, never>;
    body: undefined;
    result: OperatorConditionList;
  };
  /** Get the result of the daily reconciliation of mail */
  getReconciliation: {
    query: Record<never, never>;
    body: undefined;
    result: Reconciliation;
  };
  /** List the days with mail, by project */
  listReconciledDays: {
    query: {
      /** Day (UTC). */
      from?: string | undefined;
      /** Day (UTC). */
      to?: string | undefined;
      /** Includes only this project. */
      project_id?: string | undefined;
    };
    body: undefined;
    result: ReconciledDayList;
  };
  /** Check now that all mail is accounted for */
  checkReconciliation: {
    query: Record<never, never>;
    body: ReconciliationCheckRequest;
    result: ReconciliationCheck;
  };
  /** Acknowledge the differences of a day */
  acknowledgeReconciliation: {
    query: Record<never, never>;
    body: ReconciliationAcknowledgement;
    result: ReconciliationAcknowledged;
  };
  /** Show the state of the installation */
  getStatus: {
    query: Record<never, never>;
    body: undefined;
    result: InstallationStatus;
  };
  /** List the variables */
  listVariables: {
    query: Record<never, never>;
    body: undefined;
    result: VariableList;
  };
  /** Show the newest reports of the doctor */
  getDoctor: {
    query: Record<never, never>;
    body: undefined;
    result: Doctor;
  };
  /** Run the doctor now */
  runDoctor: {
    query: Record<never, never>;
    body: undefined;
    result: Doctor;
  };
  /** List all projects of the installation */
  listInstallationProjects: {
    query: Record<never, never>;
    body: undefined;
    result: InstallationProjectList;
  };
  /** Read the settings of a project */
  getProjectSettings: {
    query: Record<never, never>;
    body: undefined;
    result: ProjectSettings;
  };
  /** Change the settings of a project */
  updateProjectSettings: {
    query: Record<never, never>;
    body: ProjectSettingsChange;
    result: ProjectSettings;
  };
  /** End the pauses of a project */
  resumeProject: {
    query: Record<never, never>;
    body: ProjectResumeRequest;
    result: ProjectResumed;
  };
  /** List received messages */
  listInbound: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only messages that arrived before this one, for the next page. */
      after?: string | undefined;
      /** Returns only messages of this kind. */
      kind?: 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'unsubscribe' | 'other' | undefined;
    };
    body: undefined;
    result: InboundMessageList;
  };
  /** Read a received message */
  getInbound: {
    query: Record<never, never>;
    body: undefined;
    result: InboundMessageDetail;
  };
  /** List the providers that refuse mail */
  listProviderBlocks: {
    query: Record<never, never>;
    body: undefined;
    result: ProviderBlockList;
  };
  /** Probe a provider now */
  probeProvider: {
    query: Record<never, never>;
    body: undefined;
    result: ProviderProbe;
  };
  /** List the results of TLS sessions */
  listTlsResults: {
    query: {
      /** Returns only results for recipients at this domain. */
      domain?: string | undefined;
      /** Number of days to return. 1 is today (UTC). */
      days?: number | undefined;
    };
    body: undefined;
    result: TlsResultList;
  };
  /** Show the host that receives bounces */
  getReturnPathHost: {
    query: Record<never, never>;
    body: undefined;
    result: ReturnPathHost;
  };
  /** Set the host that receives bounces */
  setReturnPathHost: {
    query: Record<never, never>;
    body: ReturnPathHostWrite;
    result: ReturnPathHostChange;
  };
  /** Show why old mail is not removed yet */
  getRetention: {
    query: Record<never, never>;
    body: undefined;
    result: RetentionState;
  };
  /** Remove all old mail that is due */
  confirmRetention: {
    query: Record<never, never>;
    body: undefined;
    result: RetentionConfirmed;
  };
  /** Show what a restored installation would send */
  getHold: {
    query: Record<never, never>;
    body: undefined;
    result: InstallationHold;
  };
  /** Release a restored installation */
  endHold: {
    query: Record<never, never>;
    body: InstallationReleaseRequest;
    result: InstallationRelease;
  };
  /** List requests */
  listRequests: {
    query: {
      /** Maximum number of objects to return. */
      limit?: number | undefined;
      /** Returns only objects older than this id, for the next page. */
      after?: string | undefined;
      /** Returns only objects newer than this id, for the previous page. */
      before?: string | undefined;
      /** Returns only requests with this status: a number, a class such as `4xx`, or `failed`. */
      status?: string | undefined;
      /** Returns only requests with this method. */
      method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | undefined;
      /** Returns only requests with this key. */
      key_id?: string | undefined;
      /** Returns only requests by this member in the dashboard. */
      member_id?: string | undefined;
      /** Returns only requests at this time or later. */
      from?: string | undefined;
      /** Returns only requests before this time. */
      to?: string | undefined;
    };
    body: undefined;
    result: ApiRequestList;
  };
  /** Read a request */
  getRequest: {
    query: Record<never, never>;
    body: undefined;
    result: ApiRequestDetail;
  };
  /** Is the process alive? */
  getHealth: {
    query: Record<never, never>;
    body: undefined;
    result: Health;
  };
  /** Would an email be accepted? */
  getReadiness: {
    query: Record<never, never>;
    body: undefined;
    result: Readiness;
  };
  /** Import suppressed addresses */
  importSuppressions: {
    query: {
      /** Reason for entries without one. Lists of SendGrid and Mailgun need it when their columns do not distinguish complaints from unsubscribes. `hard_bounce` also adds bounces with unknown replies. `unsubscribe` also adds recipients who unsubscribed only from a group or tag. */
      reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;
    };
    body: string;
    result: SuppressionImport;
  };
};

export const OPERATIONS = {
  sendEmail: ['POST', '/v1/emails'],
  listEmails: ['GET', '/v1/emails'],
  countEmails: ['GET', '/v1/emails/counts'],
  getEmail: ['GET', '/v1/emails/{id}'],
  rescheduleEmail: ['PATCH', '/v1/emails/{id}'],
  cancelEmail: ['POST', '/v1/emails/{id}/cancel'],
  listEmailEvents: ['GET', '/v1/emails/{id}/events'],
  getEmailContent: ['GET', '/v1/emails/{id}/content'],
  diagnoseEmail: ['GET', '/v1/emails/{id}/diagnosis'],
  cancelEmails: ['POST', '/v1/emails/cancel'],
  inspectEmail: ['GET', '/v1/emails/{id}/inspection'],
  downloadEmailAttachment: ['GET', '/v1/emails/{id}/attachments/{number}'],
  listEmailWebhookDeliveries: ['GET', '/v1/emails/{id}/webhook-deliveries'],
  shareEmail: ['POST', '/v1/emails/{id}/share'],
  getEmailCaseFile: ['GET', '/v1/emails/{id}/case-file'],
  getReceiptKey: ['GET', '/v1/receipt-key'],
  listEvents: ['GET', '/v1/events'],
  getRecipientLog: ['GET', '/v1/recipients/{address}/log'],
  listRecipients: ['GET', '/v1/recipients'],
  getRecipient: ['GET', '/v1/recipients/{address}'],
  getStats: ['GET', '/v1/stats'],
  getQueue: ['GET', '/v1/queue'],
  getQueueProvider: ['GET', '/v1/queue/providers/{provider}'],
  holdQueue: ['POST', '/v1/queue/hold'],
  releaseQueue: ['POST', '/v1/queue/release'],
  retryQueue: ['POST', '/v1/queue/retry'],
  dropQueue: ['POST', '/v1/queue/drop'],
  undoQueueDrop: ['DELETE', '/v1/queue/drops/{id}'],
  sendEmailBatch: ['POST', '/v1/emails/batch'],
  createDomain: ['POST', '/v1/domains'],
  listDomains: ['GET', '/v1/domains'],
  getDomain: ['GET', '/v1/domains/{id}'],
  updateDomain: ['PATCH', '/v1/domains/{id}'],
  deleteDomain: ['DELETE', '/v1/domains/{id}'],
  verifyDomain: ['POST', '/v1/domains/{id}/verify'],
  rotateDomainDkim: ['POST', '/v1/domains/{id}/rotate-dkim'],
  cancelDomainDkimRotation: ['POST', '/v1/domains/{id}/rotate-dkim/cancel'],
  publishDomainRecords: ['POST', '/v1/domains/{id}/publish'],
  getDomainDmarc: ['GET', '/v1/domains/{id}/dmarc'],
  createWebhook: ['POST', '/v1/webhooks'],
  listWebhooks: ['GET', '/v1/webhooks'],
  getWebhook: ['GET', '/v1/webhooks/{id}'],
  updateWebhook: ['PATCH', '/v1/webhooks/{id}'],
  deleteWebhook: ['DELETE', '/v1/webhooks/{id}'],
  rotateWebhookSecret: ['POST', '/v1/webhooks/{id}/rotate-secret'],
  testWebhook: ['POST', '/v1/webhooks/{id}/test'],
  listWebhookDeliveries: ['GET', '/v1/webhooks/{id}/deliveries'],
  getWebhookDelivery: ['GET', '/v1/webhooks/{id}/deliveries/{delivery_id}'],
  getWebhookStatistics: ['GET', '/v1/webhooks/{id}/statistics'],
  replayWebhookDeliveries: ['POST', '/v1/webhooks/{id}/deliveries/replay'],
  replayWebhookDelivery: ['POST', '/v1/webhooks/{id}/deliveries/{delivery_id}/replay'],
  replayWebhook: ['POST', '/v1/webhooks/{id}/replay'],
  getWebhookReplay: ['GET', '/v1/webhooks/{id}/replays/{replay_id}'],
  listSuppressions: ['GET', '/v1/suppressions'],
  createSuppression: ['POST', '/v1/suppressions'],
  getSuppression: ['GET', '/v1/suppressions/{address}'],
  deleteSuppression: ['DELETE', '/v1/suppressions/{address}'],
  listSuppressionHistory: ['GET', '/v1/suppressions/{address}/history'],
  exportSuppressions: ['GET', '/v1/suppressions/export'],
  createTemplate: ['POST', '/v1/templates'],
  listTemplates: ['GET', '/v1/templates'],
  getTemplate: ['GET', '/v1/templates/{id}'],
  updateTemplate: ['PATCH', '/v1/templates/{id}'],
  deleteTemplate: ['DELETE', '/v1/templates/{id}'],
  listTemplateVersions: ['GET', '/v1/templates/{id}/versions'],
  getTemplateVersion: ['GET', '/v1/templates/{id}/versions/{version}'],
  publishTemplate: ['POST', '/v1/templates/{id}/publish'],
  previewTemplate: ['POST', '/v1/templates/{id}/preview'],
  translateTemplate: ['POST', '/v1/templates/translate'],
  getCurrentApiKey: ['GET', '/v1/api-keys/current'],
  createApiKey: ['POST', '/v1/api-keys'],
  listApiKeys: ['GET', '/v1/api-keys'],
  updateApiKey: ['PATCH', '/v1/api-keys/{id}'],
  revokeApiKey: ['DELETE', '/v1/api-keys/{id}'],
  rotateApiKey: ['POST', '/v1/api-keys/{id}/rotate'],
  listProjects: ['GET', '/v1/projects'],
  createProject: ['POST', '/v1/projects'],
  updateProject: ['PATCH', '/v1/projects/{id}'],
  getLimits: ['GET', '/v1/limits'],
  getConnection: ['GET', '/v1/connection'],
  getSignInPolicy: ['GET', '/v1/operator/sign-in-policy'],
  updateSignInPolicy: ['PATCH', '/v1/operator/sign-in-policy'],
  listMembers: ['GET', '/v1/members'],
  updateMember: ['PATCH', '/v1/members/{id}'],
  removeMember: ['DELETE', '/v1/members/{id}'],
  listInvitations: ['GET', '/v1/invitations'],
  createInvitation: ['POST', '/v1/invitations'],
  revokeInvitation: ['DELETE', '/v1/invitations/{id}'],
  listAuditEvents: ['GET', '/v1/audit_log'],
  listOperatorConditions: ['GET', '/v1/operator/conditions'],
  getReconciliation: ['GET', '/v1/operator/reconciliation'],
  listReconciledDays: ['GET', '/v1/operator/reconciliation/days'],
  checkReconciliation: ['POST', '/v1/operator/reconciliation/check'],
  acknowledgeReconciliation: ['POST', '/v1/operator/reconciliation/acknowledge'],
  getStatus: ['GET', '/v1/operator/status'],
  listVariables: ['GET', '/v1/operator/variables'],
  getDoctor: ['GET', '/v1/operator/doctor'],
  runDoctor: ['POST', '/v1/operator/doctor'],
  listInstallationProjects: ['GET', '/v1/operator/projects'],
  getProjectSettings: ['GET', '/v1/operator/projects/{id}'],
  updateProjectSettings: ['PATCH', '/v1/operator/projects/{id}'],
  resumeProject: ['POST', '/v1/operator/projects/{id}/resume'],
  listInbound: ['GET', '/v1/operator/inbound'],
  getInbound: ['GET', '/v1/operator/inbound/{id}'],
  listProviderBlocks: ['GET', '/v1/operator/provider-blocks'],
  probeProvider: ['POST', '/v1/operator/provider-blocks/{provider}/probe'],
  listTlsResults: ['GET', '/v1/operator/tls-results'],
  getReturnPathHost: ['GET', '/v1/operator/return-path-host'],
  setReturnPathHost: ['PUT', '/v1/operator/return-path-host'],
  getRetention: ['GET', '/v1/operator/retention'],
  confirmRetention: ['POST', '/v1/operator/retention/confirm'],
  getHold: ['GET', '/v1/operator/hold'],
  endHold: ['POST', '/v1/operator/release'],
  listRequests: ['GET', '/v1/requests'],
  getRequest: ['GET', '/v1/requests/{id}'],
  getHealth: ['GET', '/healthz'],
  getReadiness: ['GET', '/readyz'],
  importSuppressions: ['POST', '/v1/suppressions/import'],
} as const;
