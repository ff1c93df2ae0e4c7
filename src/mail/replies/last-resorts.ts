/** What is left when no words were known (rules.ts): subjects of enhanced codes, then bare codes. */
import type { Rule } from './meanings.ts';

export const LAST_RESORTS: readonly Rule[] = [
  {
    means: 'login_refused',
    codes: [530],
    example: '530 5.7.0 Log in first',
    phase: 'mail',
  },
  {
    means: 'login_refused',
    codes: [432, 454, 500, 534, 535, 538],
    enhanced: ['7.0', '7.3', '7.14'],
    example: '534 5.7.14 Please log in with your web browser',
    phase: 'auth',
  },
  {
    means: 'greylisted',
    codes: [450, 451],
    enhanced: ['7.*'],
    text: 'try again | try later | retry | come back | temporarily | deferred',
    example: '451 4.7.1 Please try again later',
  },
  {
    // T-Online and others who say 5.7.x for whatever they do not want.
    means: 'refused_by_policy',
    enhanced: ['7.*'],
    example: '550 5.7.1 Message rejected due to local policy',
    phase: 'data',
  },
  {
    means: 'mailbox_trouble',
    enhanced: ['1.*', '2.*'],
    example: '450 4.2.0 Mailbox not ready',
  },
  {
    means: 'server_trouble',
    enhanced: ['3.*'],
    example: '451 4.3.0 Mail server temporarily rejected message',
  },
  {
    means: 'routing_trouble',
    enhanced: ['4.*'],
    example: '451 4.4.2 Timeout - closing connection',
    phase: 'data',
  },
  {
    means: 'bad_format',
    enhanced: ['6.*'],
    example: '554 5.6.0 Unreadable message',
    phase: 'data',
  },
  {
    means: 'refused_by_policy',
    text: 'policy | policies | not allowed | access denied | not accepted | blocked | banned | prohibited',
    example: '550 Access denied...7d39d5299584f4be',
    phase: 'mail',
  },
  {
    means: 'refused_by_policy',
    text: 'administrative prohibition | not permitted | not authorized | restricted | no permission',
    example: '550 Administrative hindrance: you are not permitted',
    phase: 'mail',
  },
  {
    means: 'server_trouble',
    text: 'not available | unavailable | overloaded | local error | timed out | local problem | temporary failure',
    example: '451 Temporary local error, please try again',
  },
  {
    means: 'not_understood',
    enhanced: ['5.1', '5.2', '5.4', '5.5', '5.6'],
    example: '501 5.5.4 Unsupported option: SIZE',
    phase: 'mail',
  },
  {
    means: 'not_understood',
    codes: [500, 501, 502, 503, 504, 555],
    example: '555 MAIL parameters not recognized',
    phase: 'mail',
  },
];
