/** Whether the rows of a list of emails have columns, which depends on the width of the list and not of the window. */
import { type RefObject, useLayoutEffect, useState } from 'react';

/** From this width on a recipient, a subject, a status and a time stand beside each other. */
const COLUMNS_FROM_PX = 720;

const ONE_LINE_PX = 44;
const TWO_LINES_PX = 56;
export const HEAD_PX = 34;

export function rowPxOf(hasColumns: boolean): number {
  return hasColumns ? ONE_LINE_PX : TWO_LINES_PX;
}

export function useHasColumns(frame: RefObject<HTMLElement | null>): boolean {
  const [hasColumns, setColumns] = useState(false);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const read = (): void => setColumns(element.offsetWidth >= COLUMNS_FROM_PX);
    read();
    const sizes = new ResizeObserver(read);
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [frame]);
  return hasColumns;
}
