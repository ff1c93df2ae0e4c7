/**
 * Addresses with a fixed outcome in the simulator (delivery/attempt/simulator.ts). The suppression list does not
 * apply to them, because tests send to them again and again.
 */

export const SIMULATOR_DOMAIN = 'simulator.test';
/** Domain of the test addresses that Resend documents. A name may have a label (`bounced+label`). */
export const RESEND_DOMAIN = 'resend.dev';
export const RESEND_NAMES = ['delivered', 'bounced', 'complained', 'suppressed'] as const;
