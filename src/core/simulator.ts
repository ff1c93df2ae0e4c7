/**
 * The addresses for which the simulator of test mail has an outcome (delivery/attempt/simulator.ts). Tests send to them
 * again and again, so an entry of the suppression list never holds back test mail to one.
 */

export const SIMULATOR_DOMAIN = 'simulator.test';
/** At this domain the names that Resend documents, with or without a label. */
export const RESEND_DOMAIN = 'resend.dev';
export const RESEND_NAMES = ['delivered', 'bounced', 'complained', 'suppressed'] as const;
