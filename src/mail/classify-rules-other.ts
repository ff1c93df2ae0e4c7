/** Answers about anything else (classify-rules.ts), the general ones last. */
import type { Rule } from './classify-rules.ts';

export const OTHER: readonly Rule[] = [
  {
    means: 'relay_denied',
    text: 'relay access denied | relaying denied | relaying not | to relay | mail relay | rcpthosts',
    example: '554 5.7.1 <jo@acme.test>: Relay access denied',
  },
  {
    means: 'login_refused',
    enhanced: ['7.8', '7.9', '7.11', '7.12'],
    codes: [432, 454, 500, 534, 535, 538],
    example: '535 5.7.8 Username and Password not accepted',
    phase: 'auth',
  },
  {
    means: 'login_refused',
    codes: [530],
    example: '530 5.7.0 Log in first',
    phase: 'mail',
  },
  {
    means: 'login_refused',
    text: 'smtp authentication | authentication required | authentication failed',
    example: '550 Please turn on SMTP Authentication in your mail client',
    phase: 'mail',
  },
  {
    means: 'low_reputation',
    enhanced: ['7.28', '7.501', '7.502', '7.503', '7.511', '7.708', '7.750'],
    example: '550 5.7.28 There is an unusual amount of mail from your address',
    phase: 'dot',
  },
  {
    means: 'too_many_recipients',
    enhanced: ['5.3'],
    example: '452 4.5.3 Your message has more recipients than we take',
  },
  {
    means: 'too_many_recipients',
    text: 'too many recipients',
    example: '552 Too many recipients',
  },
  {
    means: 'no_smtputf8',
    enhanced: ['6.7', '6.9'],
    example: '553 5.6.7 The server takes no addresses outside of ASCII (SMTPUTF8).',
    phase: 'mail',
  },
  {
    means: 'gave_up_elsewhere',
    enhanced: ['4.7'],
    example: '554 5.4.7 Message expired: unable to deliver in 840 minutes',
    phase: 'dot',
  },
  {
    means: 'greylisted',
    codes: [450, 451],
    enhanced: ['7.*'],
    text: 'try again | try later | retry | come back | not yet authorized | temporarily',
    example: '451 4.7.1 Please try again later',
  },
  {
    means: 'refused_by_policy',
    enhanced: ['7.*'],
    example: '550 5.7.1 Message rejected due to local policy',
    phase: 'dot',
  },
  {
    means: 'mailbox_trouble',
    enhanced: ['1.*', '2.*'],
    example: '450 4.2.0 Mailbox in use',
  },
  {
    means: 'server_trouble',
    enhanced: ['3.*'],
    example: '452 4.3.1 Insufficient system storage',
  },
  {
    means: 'routing_trouble',
    enhanced: ['4.*'],
    example: '554 5.4.6 Too many hops, the message is in a loop',
    phase: 'dot',
  },
  {
    means: 'bad_format',
    enhanced: ['6.*'],
    example: '554 5.6.0 Corrupt message',
    phase: 'dot',
  },
  {
    means: 'refused_by_policy',
    text: 'policy | policies | not allowed | access denied | not accepted | blocked | banned',
    example: '550 Access denied...7d39d5299584f4be',
    phase: 'mail',
  },
  {
    means: 'server_trouble',
    text: 'service unavailable | not available | unavailable | overloaded | local error | timed out',
    example: '451 Temporary local error, please try again',
  },
  {
    means: 'not_understood',
    enhanced: ['5.1', '5.2', '5.4', '5.5', '5.6'],
    example: '503 5.5.1 Error: nested MAIL command',
    phase: 'mail',
  },
  {
    means: 'not_understood',
    codes: [500, 501, 502, 503, 504, 555],
    example: '555 MAIL parameters not recognized',
    phase: 'mail',
  },
];
