/** Replies that refuse our identity (rules.ts): reverse DNS, HELO, SPF, DKIM, DMARC, TLS, login. */
import type { Rule } from './match.ts';

export const AUTHENTICATION: readonly Rule[] = [
  {
    means: 'no_reverse_dns',
    text: 'reverse dns | reverse-dns | rdns | no ptr | missing ptr | ptr record | ptr resource record',
    example: '554 5.7.1 Your server needs a PTR record with a valid entry',
  },
  {
    means: 'no_reverse_dns',
    text: 'reverse hostname | cannot find your hostname | cannot find your reverse | reverse lookup',
    example: '450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]',
  },
  {
    means: 'no_reverse_dns',
    text: 'ip name lookup failed | ip name possibly forged | mismatches client ip | pt000001 | pt000002',
    example: '550 5.7.1 Relaying denied. IP name lookup failed [192.0.2.1]',
  },
  {
    means: 'no_reverse_dns',
    text: 'ptr lookup | forward-confirmed | bad dns ptr | dns ptr | aup#cxdns | without ptr',
    example: '554-No SMTP service\n554 Bad DNS PTR lookup: does not lead back',
    phase: 'greeting',
  },
  {
    means: 'bad_helo',
    text: 'helo command rejected | invalid helo | bad helo | ehlo name | helo name | helohost',
    example: '504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname',
  },
  {
    means: 'bad_helo',
    text: 'helo + does not resolve | helo + invalid | ehlo + invalid | helo + not match | ehlo argument',
    example: '550 5.7.0 HELO of your server does not resolve',
    phase: 'mail',
  },
  {
    means: 'not_authenticated',
    text: 'dmarc',
    example: "550 5.7.1 Email from acme.test is not accepted due to domain's DMARC policy.",
    phase: 'data',
  },
  {
    means: 'not_authenticated',
    text: 'dkim',
    example: '550 5.7.0 DKIM signature verification failed',
    phase: 'data',
  },
  {
    means: 'not_authenticated',
    text: 'spf check | spf record | spf fail | (spf) | spf validation | spf policy | spf error | mi:spf',
    example: '550 5.7.1 SPF check failed: 192.0.2.1 may not send for acme.test',
    phase: 'mail',
  },
  {
    means: 'not_authenticated',
    text: 'sender policy framework | openspf | spf.pobox | spf: | spf + not permitted | by spf',
    example: '553 SPF says no: see http://www.openspf.test/Why',
    phase: 'mail',
  },
  {
    means: 'not_authenticated',
    text: 'unauthenticated | fails authentication | sender authentication | sender id | senderid',
    example: '550 5.7.1 This mail is unauthenticated, which poses a security risk',
    phase: 'data',
  },
  {
    means: 'not_authenticated',
    text: 'does not pass authentication | authentication checks | authentication information + gmail',
    example: '421 4.7.0 This message does not pass authentication checks (SPF and others)',
    phase: 'data',
  },
  {
    // Mimecast and others: external mail with the recipient's own domain as the sender.
    means: 'not_authenticated',
    text: 'anti-spoof | antispoof | spoofed | spoofing | forged sender | fake sender | forged from',
    example: '550 Rejected by header based Anti-Spoofing policy: acme.test',
    phase: 'data',
  },
  {
    means: 'not_authenticated',
    text: 'purported responsible | submitter failed | not permitted to send on behalf | not allowed to send from',
    example: "550 5.7.1 can't determine Purported Responsible Address",
    phase: 'mail',
  },
  {
    means: 'sender_domain_unknown',
    text: 'sender address rejected: domain not found | domain of sender address | sdnf',
    example: '450 4.7.1 <b@acme.test>: Sender address rejected: Domain not found',
  },
  {
    means: 'sender_domain_unknown',
    text: 'sender domain + not | sending domain + does not exist | from: domain is invalid',
    example: '550 Your sender domain does not resolve',
    phase: 'mail',
  },
  {
    means: 'sender_domain_unknown',
    text: "mx for sender | sender + mx record | sender + a record | sender's domain + dns | valid sender domain",
    example: '550 The sender has neither an MX record nor an address',
    phase: 'mail',
  },
  {
    means: 'sender_refused',
    text: 'sender address rejected | unroutable sender | unrouteable sender | sender denied',
    example: '550 5.1.0 <b@acme.test>: Sender address rejected: User unknown',
  },
  {
    means: 'sender_refused',
    text: 'sender rejected | sender is rejected | sender blocked | sender address blocked | blocked sender',
    example: '550 Rejected by header based manually Blocked Senders',
    phase: 'data',
  },
  {
    means: 'sender_refused',
    text: 'envelope sender | denies the sender | invalid sender | bad sender | sender invalid',
    example: '553 sorry, your envelope sender has been denied (#5.7.1)',
    phase: 'mail',
  },
  {
    means: 'sender_refused',
    text: 'null sender | empty sender | bounces not accepted | mail from: + rejected',
    example: '553 Requested action not taken: NULL sender is not allowed',
    phase: 'mail',
  },
  {
    // From a relay: concerns the account of our log-in.
    means: 'sender_refused',
    text: 'your account has been | outgoing mail + suspended | not owned by user',
    example: '550 5.7.1 Your account has been suspended',
    phase: 'mail',
  },
  {
    means: 'tls_required',
    text: 'must issue a starttls | starttls first | tls required | requires tls | over tls | use tls',
    example: '530 5.7.0 Must issue a STARTTLS command first',
    phase: 'mail',
  },
  {
    means: 'tls_required',
    text: 'starttls is required | encryption required | encryption needed | not encrypted',
    example: '554 5.7.1 STARTTLS is required to send to this domain',
    phase: 'mail',
  },
  {
    means: 'relay_denied',
    text: 'relay access denied | relaying denied | relaying not | relaying disallowed | relay not permitted',
    example: '550 5.7.1 <jo@acme.test>... Relaying denied. Proper authentication required.',
  },
  {
    means: 'login_refused',
    text: 'smtp authentication | authentication required | authentication is required | auth required',
    example: '550 Please turn on SMTP Authentication in your mail client',
    phase: 'mail',
  },
  {
    means: 'login_refused',
    text: 'authentication failed | authentication data | requires authentication | not logged in',
    example: '535 Incorrect authentication data',
    phase: 'auth',
  },
];
