import { type RefObject, useEffect, useRef } from 'react';

/** How far an item may be off, in pixels, because browsers round. */
const SLACK_PX = 1;

/** Fades a row at the edge beyond which it goes on, so that what is cut there looks as if it could be scrolled to. */
export function useFadedEdges<Row extends HTMLElement>(): RefObject<Row | null> {
  const row = useRef<Row>(null);
  const mark = (): void => {
    const element = row.current;
    if (element === null) return;
    // Not the width that scrolls: where only the margin of the row goes on, nothing is cut.
    const { left, right } = element.getBoundingClientRect();
    const first = element.firstElementChild?.getBoundingClientRect().left ?? left;
    const last = element.lastElementChild?.getBoundingClientRect().right ?? right;
    element.toggleAttribute('data-more-before', left - first > SLACK_PX);
    element.toggleAttribute('data-more-after', last - right > SLACK_PX);
  };
  useEffect(() => {
    const element = row.current;
    if (element === null) return;
    const sizes = new ResizeObserver(mark);
    sizes.observe(element);
    element.addEventListener('scroll', mark, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener('scroll', mark);
    };
  }, []);
  // Its content may have changed.
  useEffect(mark);
  return row;
}
